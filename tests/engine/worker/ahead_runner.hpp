#pragma once

#include <mailgrad/engine/worker/step_runner.hpp>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace mailgrad::testing {

/// A runner that takes two steps at once, as a GPU with the weights does. Another runner computes each when
/// it is begun, and it ends when the test says so.
class ahead_runner final : public step_runner {
public:
  explicit ahead_runner(std::shared_ptr<step_runner> own) : own_(std::move(own)) {}

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override { notice_ = std::move(notice); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_host_weights(shard, values, std::move(owner));
  }
  std::size_t most_under_way() const noexcept override { return 2; }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    own_->begin_step(std::move(inputs), std::move(out));
    begun_.push_back({own_->end_step(), nullptr, {}});
    return step_state::under_way;
  }
  float end_step() override {
    const step ended = begun_.front();
    begun_.pop_front();
    if (ended.failure) std::rethrow_exception(ended.failure);
    span_ = ended.when;
    return ended.loss;
  }
  std::optional<device_span> span() const override { return span_; }
  step_state give_up() override { return begun_.empty() ? step_state::finished : step_state::under_way; }

  std::size_t under_way() const { return begun_.size(); }
  /// The oldest step ends, as the device computed it.
  void end_one(device_span when = {}) {
    begun_.front().when = when;
    notice_();
  }
  void end_one_with(float loss) {
    begun_.front().loss = loss;
    end_one();
  }
  void fail_one(const std::exception_ptr& why) {
    begun_.front().failure = why;
    end_one();
  }

private:
  struct step {
    float loss;
    std::exception_ptr failure;
    device_span when;
  };

  std::shared_ptr<step_runner> own_;
  std::function<void()> notice_;
  std::deque<step> begun_;
  std::optional<device_span> span_;
};

} // namespace mailgrad::testing
