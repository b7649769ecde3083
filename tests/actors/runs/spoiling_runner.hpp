#pragma once

#include <mailgrad/engine/worker/step_runner.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace mailgrad::testing {

/// Forwards all to another runner, but one batch has a label that is none.
class spoiling_runner final : public step_runner {
public:
  spoiling_runner(std::shared_ptr<step_runner> own, std::uint64_t spoilt)
      : own_(std::move(own)), spoilt_(spoilt) {}

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override { own_->on_end(std::move(notice)); }
  void use_weights(std::uint32_t shard, const snapshot& values) override { own_->use_weights(shard, values); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_host_weights(shard, values, std::move(owner));
  }
  std::size_t most_under_way() const noexcept override { return own_->most_under_way(); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    if (inputs->number == spoilt_) const_cast<batch&>(*inputs).labels.values<std::int32_t>()[0] = 99;
    return own_->begin_step(std::move(inputs), std::move(out));
  }
  float end_step() override { return own_->end_step(); }
  std::optional<device_span> span() const override { return own_->span(); }
  step_state give_up() override { return own_->give_up(); }

private:
  std::shared_ptr<step_runner> own_;
  std::uint64_t spoilt_;
};

} // namespace mailgrad::testing
