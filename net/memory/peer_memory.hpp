#pragma once

#include <mailgrad/net/memory/shared_heap.hpp>
#include <mailgrad/net/stream/stream_host.hpp>

// Abstract Unix sockets: their names stand in no file system, and are free again when nobody listens. Every
// descriptor is closed in programs that this one starts, since a copy there would keep a connection open.

namespace mailgrad::net {

/// A socket at which processes of this machine connect, under this name.
/// Errors  std::system_error; the code is EADDRINUSE if the name is taken.
descriptor listening_at(const std::string& name);

/// A socket that is connected to whoever listens under this name. `failed` is 0 then, or the error.
struct dialled {
  descriptor socket{};
  int failed = 0;
};
dialled connected_to(const std::string& name);

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

  std::optional<lending> lend(byte_view from) override { return own_ ? own_->lend(from) : std::nullopt; }
  void abandon(lending l, std::shared_ptr<const void> keeps) override {
    own_->abandon(std::move(l), std::move(keeps));
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
