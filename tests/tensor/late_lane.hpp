#pragma once

#include <mailgrad/tensor/lane.hpp>

#include <algorithm>
#include <memory>
#include <span>

namespace mailgrad::testing {

/// A lane of the host whose marks pass only in run(). On a GPU they pass when its work is done.
class late_lane final : public lane {
public:
  const stream& where() const noexcept override { return where_; }
  memory allocate(std::size_t bytes) override { return memory(block(bytes)); }
  void write(std::span<const float> from, memory& to) override {
    std::ranges::copy(from, to.on_host<float>().begin());
  }
  mark record() override { return mark(under_way_); }

  /// Lets all marks pass that were recorded before.
  void run() {
    under_way_->has_passed = true;
    under_way_ = std::make_shared<point>();
  }

private:
  struct point final : mark::event {
    bool has_passed = false;
    bool passed() const override { return has_passed; }
  };

  stream where_ = host_stream{};
  std::shared_ptr<point> under_way_ = std::make_shared<point>();
};

} // namespace mailgrad::testing
