#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/worker/exchange.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A runner that computes nothing. It notes which weights it was given.
class noting_runner final : public step_runner {
public:
  struct given {
    std::uint32_t shard;
    const float* values;
    bool operator==(const given&) const = default;
  };

  std::shared_ptr<gradient> make_gradient() const override { return std::make_shared<gradient>(); }
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    weights.push_back({shard, values});
  }
  step_state begin_step(std::shared_ptr<const batch>, std::shared_ptr<gradient>) override {
    return step_state::finished;
  }
  float end_step() override { return 0; }

  std::vector<given> weights;
};

/// A worker of rank 1 whose device actor the test plays, with two shards of four weights each.
class PlayedWorker : public PlayedActorTest {
protected:
  using shard_probe = listener<join_shard, push_gradient, worker_left>;

  worker_context context() {
    return {self_, run_id{7}, rank{1}, incarnation_number{2}, runner_, report_, *time_, nullptr};
  }
  std::vector<caf::actor> shards() const { return {probes_[0].actor(), probes_[1].actor()}; }

  /// An answer of a shard, with weights of this value.
  shard_weights answer(std::uint32_t shard, std::uint64_t version, float value = 0,
                       std::optional<stay_at_shard> stay = {}) {
    block values(4 * sizeof(float));
    for (float& v : values.as<float>()) v = value;
    return {{{shard}, {version}, {}, stay, {}},
            {snapshot(std::make_shared<const memory>(std::move(values))), {}}};
  }

  /// What shard `s` was pushed.
  std::vector<push_gradient>& pushed(std::size_t s) { return probes_[s].heard<push_gradient>(); }

  noting_runner runner_;
  worker_report report_;
  std::vector<shard_probe> probes_{listen<join_shard, push_gradient, worker_left>(),
                                   listen<join_shard, push_gradient, worker_left>()};
};

} // namespace mailgrad::testing
