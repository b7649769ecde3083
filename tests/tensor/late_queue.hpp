#pragma once

#include <mailgrad/tensor/memory.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad::testing {

/// A queue of the host whose events pass only in run(). On a GPU they pass when its work is done.
class late_queue final : public device_queue {
public:
  const stream& where() const noexcept override { return where_; }
  memory allocate(std::size_t bytes) override { return memory(block(bytes)); }
  void write(std::span<const float> from, memory& to) override {
    std::ranges::copy(from, to.on_host<float>().begin());
  }
  memory lend_on_host(std::size_t bytes) override { return allocate(bytes); }
  void copy_to_host(const memory& from, std::size_t first, memory& to) override {
    std::ranges::copy(from.on_host<std::byte>().subspan(first, to.bytes()), to.on_host<std::byte>().begin());
  }
  void wait_for(const device_event& m) override { waited_for_.push_back(m); }
  device_event record() override { return device_event(under_way_); }
  void finish() override { run(); }

  /// The events that work was told to wait for.
  const std::vector<device_event>& waited_for() const noexcept { return waited_for_; }

  /// Lets all events pass that were recorded before.
  void run() {
    under_way_->has_passed = true;
    under_way_ = std::make_shared<point>();
  }

private:
  struct point final : device_event::driver_event {
    bool has_passed = false;
    bool passed() const override { return has_passed; }
  };

  stream where_ = host_stream{};
  std::vector<device_event> waited_for_;
  std::shared_ptr<point> under_way_ = std::make_shared<point>();
};

} // namespace mailgrad::testing
