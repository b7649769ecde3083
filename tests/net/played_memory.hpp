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
  std::optional<lending> lend(byte_view part) override {
    if (lends_nothing) return std::nullopt;
    return lending{{reinterpret_cast<std::uintptr_t>(part.data()), part.size(), 0, part.size()}, units_};
  }
  void abandon(lending l, std::shared_ptr<const void> keeps) override {
    abandoned.emplace_back(std::move(l), std::move(keeps));
  }
  borrowed borrow(const loan& l) override {
    const byte_view all{reinterpret_cast<const std::byte*>(l.block), l.block_bytes};
    return {all, all.subspan(l.begin, l.bytes), nullptr};
  }

  long lent() const { return units_.use_count() - 1; }

  bool lends_nothing = false;
  std::vector<std::pair<lending, std::shared_ptr<const void>>> abandoned;

private:
  std::shared_ptr<const void> units_ = std::make_shared<const int>(); ///< of all loans
};

} // namespace mailgrad::net
