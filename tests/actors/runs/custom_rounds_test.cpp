#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// Runs with a policy of a user's own that has rounds.

namespace mailgrad {
namespace {

using testing::options_for;
using testing::small_data;
using testing::small_model;

/// One update a round, from the mean of each worker's mean, when every worker has sent a gradient. Nobody
/// waits: what a worker sends besides is for the next round.
class custom_rounds final : public policy {
public:
  static constexpr std::string_view policy_name = "own-rounds";

  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool makes_batches() const noexcept override { return true; }
  weighing weighs() const noexcept override { return weighing::workers; }
  bool has_rounds() const noexcept override { return true; }
  std::uint64_t rounds_over() const noexcept override { return rounds_; }

  void join(rank worker) override { at(worker).present = true; }
  void leave(rank worker) override { at(worker).present = false; }
  decision judge(const gradient_stamp& g) override {
    if (!may_start(g.worker)) return {verdict::discard, "not awaited"};
    entry& sender = at(g.worker);
    if (std::exchange(sender.sent, true)) {
      sender.sent_early = true;
      return {verdict::defer};
    }
    return {verdict::merge};
  }
  bool batch_complete() const override {
    return std::ranges::any_of(workers_, &entry::sent) &&
           std::ranges::all_of(workers_, [](const entry& w) { return w.sent || !w.present; });
  }
  void batch_applied() override {
    ++rounds_;
    for (entry& w : workers_) w.sent = std::exchange(w.sent_early, false);
  }
  bool may_start(rank worker) const override {
    return worker.value < workers_.size() && workers_[worker.value].present;
  }
  void keep(archive& a) override {
    const std::size_t joined = workers_.size();
    a.version(1);
    a.field("workers", workers_);
    a.field("rounds", rounds_);
    workers_.resize(std::max(joined, workers_.size()));
  }

private:
  struct entry {
    bool present = false;
    bool sent = false;       ///< a gradient of this round
    bool sent_early = false; ///< one of the next

    void keep(archive& a) {
      a.field("present", present);
      a.field("sent", sent);
      a.field("sent_early", sent_early);
    }
  };

  entry& at(rank worker) {
    if (workers_.size() <= worker.value) workers_.resize(worker.value + 1);
    return workers_[worker.value];
  }

  std::vector<entry> workers_; ///< by rank
  std::uint64_t rounds_ = 0;
};

training_options in_rounds() {
  training_options o = options_for(custom_policy<custom_rounds>(), 3);
  o.shards = 2;
  return o;
}

TEST(CustomRounds, MergeEveryGradientAndLoseNone) {
  const training_report r = testing::trained(in_rounds());
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.ledger, (gradient_ledger{r.steps, 0, r.steps, {}, 0}));
  EXPECT_LE(r.updates, r.steps) << "and fewer, if several gradients of a worker are in one round";
}

TEST(CustomRounds, AreReplayedBitForBit) {
  const scratch_folder folder;
  training_options o = in_rounds();
  o.policy += ", sync@10, own-rounds@20";
  o.record = (folder.path() / "run.rec").string();
  const training_report there = testing::trained(o);
  ASSERT_EQ(there.ended, "completed") << there.why;
  o.replay = std::make_shared<const recording>(read_recording(std::exchange(o.record, "")));
  EXPECT_EQ(testing::trained(o).parameters_sha256, there.parameters_sha256);
}

TEST(CustomRounds, GoOnFromACheckpoint) {
  const scratch_folder folder;
  training_options o = in_rounds();
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 7};
  ASSERT_EQ(testing::trained(o).ended, "completed");
  for (const auto& file : checkpoints_in(folder.path())) {
    training_options on = in_rounds();
    on.resume = std::make_shared<const checkpoint>(checkpoint::read(file));
    const training_report r = testing::trained(on);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_EQ(r.ledger, (gradient_ledger{r.steps, 0, r.steps, {}, 0}));
  }
}

} // namespace
} // namespace mailgrad
