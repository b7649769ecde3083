#pragma once

#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

// Runs whose workers write into one block, on the host or on a GPU, and whose state is kept while they go on.

namespace mailgrad::testing {

inline checkpoint_card card_of(const checkpoint& from) {
  checkpoint_card card;
  from.part("run")->field("card", card);
  return card;
}

/// What a checkpoint says in several places of how much is trained.
struct told_steps {
  bool in_block = false;      ///< the policy then was hogwild
  std::uint64_t counted = 0;  ///< by the workers
  std::uint64_t written = 0;  ///< by the workers, into the block
  std::uint64_t of_block = 0; ///< updates that it counts
  std::uint64_t taken = 0;    ///< batches that are not dealt again
  std::vector<float> weights;
};

/// `shards`: those that have the weights; 0: the block has them.
inline told_steps told_by(const checkpoint& from, std::uint32_t workers, std::uint32_t shards) {
  told_steps told;
  kept_schedule schedule;
  from.part("run")->field("schedule", schedule);
  told.in_block = schedule.policy == "hogwild";
  for (std::uint32_t r = 0; r < workers; ++r) {
    worker_report report;
    from.part("worker " + std::to_string(r))->field("report", report);
    told.counted += report.steps;
    told.written += report.applied;
  }
  from.part(block_part)->field("updates", told.of_block);
  feeder_position feeder;
  from.part("feeder")->field("feeder", feeder);
  told.taken = feeder.batches.undealt - feeder.batches.again.size();
  const auto append = [&](const archived_array& x) {
    told.weights.insert(told.weights.end(), x.values.begin(), x.values.end());
  };
  if (shards == 0) append(from.part(block_part)->array("weights"));
  for (std::uint32_t s = 0; s < shards; ++s) {
    const auto shard = from.part("shard " + std::to_string(s));
    shard->group("shard", [&] { append(shard->array("weights")); });
  }
  return told;
}

/// Fixture of such runs under the policy of the parameter. `Run` has a run() that keeps checkpoints.
template <class Run>
class HogwildRuns : public Run, public ::testing::WithParamInterface<const char*> {
protected:
  static constexpr float counting_rate = 0.25F;

  static assembly small_run(std::uint64_t seed, std::uint32_t shards) {
    return {.policy = GetParam(), .shards = shards, .batches = 24, .checkpoint_every = 2 + seed % 3};
  }
  static bool alone() { return std::string_view(GetParam()) == "hogwild"; }
  /// A switch comes before or after the batch that a worker has in hand, so the weights of several policies
  /// are the same only with a rule without state.
  static std::vector<const char*> rules() {
    if (alone()) return {"sgd", "momentum", "adam"};
    return {"sgd"};
  }

  static void expect_same(const kept_result& was, const kept_result& is) {
    expect_same_bits(was.weights, is.weights);
    EXPECT_EQ(was.report.ledger.produced, is.report.ledger.produced);
    EXPECT_EQ(was.report.samples, is.report.samples);
    EXPECT_EQ(was.report.final_loss, is.report.final_loss);
    EXPECT_EQ(was.report.updates, is.report.updates);
    EXPECT_EQ(was.report.switches.size(), is.report.switches.size());
    if (!alone()) return; // else they depend on the moment of a switch
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.staleness.buckets(), is.report.staleness.buckets());
  }

  void expect_one_worker_goes_on_to_the_same(assembly a, const char* rule, drawn_order& order) {
    a.workers = 1;
    a.optimizer = rule;
    SCOPED_TRACE(rule);
    go_on_from_each(
        2, a, [&](const assembly& x) { return this->run(x, order); }, expect_same);
  }
  void expect_each_batch_once(const assembly& a, drawn_order& order) {
    const auto check = [&](const kept_result& was, const kept_result& is) {
      EXPECT_EQ(is.outcome.how, run_outcome::ending::completed);
      EXPECT_EQ(is.report.steps, a.batches);
      EXPECT_EQ(is.report.samples, was.report.samples);
      EXPECT_EQ(is.report.ledger.produced, a.batches);
      EXPECT_EQ(is.report.ledger.lost, 0U);
      EXPECT_EQ(is.report.switches.size(), was.report.switches.size());
    };
    go_on_from_each(
        1, a, [&](const assembly& x) { return this->run(x, order); }, check);
  }
  /// The state of a worker's rule outlives the worker, which has ended by then.
  void expect_made_longer(assembly a, drawn_order& order) {
    a.workers = 1;
    if (!alone()) a.optimizer = "sgd";
    const kept_result was = this->run(a, order);
    a.batches = 12;
    a.resume = this->run(a, order).checkpoints.back();
    a.batches = 24;
    expect_same(was, this->run(a, order));
  }
  /// Gradients of ones move every weight by the learning rate, so the weights tell how many steps they have
  /// seen. Returns how many checkpoints were taken under hogwild.
  static std::size_t expect_each_is_one_cut(const kept_result& was, const assembly& a, std::uint32_t shards) {
    std::size_t in_block = 0;
    for (const auto& from : was.checkpoints) {
      SCOPED_TRACE(from->path().string());
      const told_steps told = told_by(*from, a.workers, shards);
      EXPECT_EQ(told.of_block, told.written);
      EXPECT_EQ(told.taken, told.counted);
      if (!told.in_block) continue;
      ++in_block;
      std::vector<float> at_end = told.weights;
      for (float& w : at_end) w -= counting_rate * static_cast<float>(a.batches - told.counted);
      EXPECT_THAT(at_end, ::testing::Pointwise(::testing::FloatNear(1e-4F), was.weights));
    }
    return in_block;
  }
};

} // namespace mailgrad::testing
