#pragma once

#include <mailgrad/net/loan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// Memory that both sides of a test see: all of it is of this process.
class played_memory final : public common_memory {
public:
  std::optional<loan> lend(byte_view part) override {
    if (lends_nothing) return std::nullopt;
    ++lent;
    return loan{reinterpret_cast<std::uintptr_t>(part.data()), part.size(), 0, part.size()};
  }
  void take_back(const loan&) override { --lent; }
  void abandon(const loan&, std::shared_ptr<const void> keeps) override {
    abandoned.push_back(std::move(keeps));
  }
  borrowed borrow(const loan& l) override {
    const byte_view all{reinterpret_cast<const std::byte*>(l.block), l.block_bytes};
    return {all, all.subspan(l.begin, l.bytes), nullptr};
  }

  bool lends_nothing = false;
  int lent = 0;
  std::vector<std::shared_ptr<const void>> abandoned;
};

} // namespace mailgrad::net
