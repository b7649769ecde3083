#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/loan.hpp>
#include <mailgrad/net/memory/shared_heap.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace mailgrad::net {

/// The heaps of both processes of one connection.
class peer_memory final : public common_memory {
public:
  /// `own` is null if this process lends nothing.
  explicit peer_memory(std::shared_ptr<shared_heap> own,
                       std::shared_ptr<far_pages> pages = std::make_shared<far_pages>()) noexcept
      : own_(std::move(own)), pages_(std::move(pages)) {}

  /// The peer's heap has come. Further ones are ignored.
  void take(descriptor heap) {
    if (!heap_ && !far_) heap_ = std::move(heap);
  }
  /// How to look whether it has; null: it will not come any more.
  void ask_by(std::function<void()> look) noexcept { look_ = std::move(look); }

  std::optional<loan> lend(byte_view from) override { return own_ ? own_->lend(from) : std::nullopt; }
  void take_back(const loan& l) override { own_->take_back(l); }
  void abandon(const loan& l, std::shared_ptr<const void> keeps) override {
    own_->abandon(l, std::move(keeps));
  }
  borrowed borrow(const loan& l) override;

private:
  std::shared_ptr<shared_heap> own_;
  std::shared_ptr<far_pages> pages_;
  std::function<void()> look_;
  descriptor heap_; ///< until it is used
  std::optional<far_heap> far_;
};

} // namespace mailgrad::net
