#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/net/played_sums.hpp>

#include <cmath>
#include <limits>
#include <span>

// Whole runs whose workers add their gradients up before they push them, in many orders of delivery.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using ::testing::FloatNear, ::testing::HasSubstr, ::testing::Pointwise;
using ending = run_outcome::ending;

constexpr std::uint64_t summed_orders = 100;

/// Says of a step that its loss is no number, or that it failed.
class failing_runner final : public forwarding_runner {
public:
  enum class how { diverges, throws };

  failing_runner(std::shared_ptr<step_runner> own, std::uint64_t step, how what)
      : forwarding_runner(std::move(own)), step_(step), what_(what) {}

  float end_step() override {
    const float loss = forwarding_runner::end_step();
    if (++steps_ < step_) return loss;
    if (what_ == how::throws) throw std::runtime_error("a kernel failed");
    return std::numeric_limits<float>::quiet_NaN();
  }

private:
  std::uint64_t step_;
  how what_;
  std::uint64_t steps_ = 0;
};

class SummedRuns : public DrawnRuns {
protected:
  static assembly plain(std::uint32_t workers = 3, std::uint64_t batches = 13) {
    return {.policy = "sync", .workers = workers, .batches = batches};
  }
  /// The same with sums, which each run begins anew.
  static assembly summed(assembly a) {
    a.sums = [sums = std::shared_ptr<net::played_sums>(), all = a.workers](rank worker) mutable {
      if (!sums) sums = std::make_shared<net::played_sums>(all);
      return sums->join(worker.value);
    };
    return a;
  }
  /// A run whose worker 1 fails in its third step.
  static assembly failing(failing_runner::how what) {
    assembly a = summed(plain());
    a.runner = [what](rank worker, std::shared_ptr<step_runner> own) -> std::shared_ptr<step_runner> {
      if (worker != rank{1}) return own;
      return std::make_shared<failing_runner>(std::move(own), 3, what);
    };
    return a;
  }
};

TEST_F(SummedRuns, GiveTheWeightsTheLedgerAndTheStalenessOfARunWithoutSums) {
  for (const auto& [workers, batches] :
       {std::pair{1U, 5U}, {2U, 12U}, {2U, 13U}, {3U, 13U}, {3U, 14U}, {4U, 3U}}) {
    SCOPED_TRACE(::testing::Message() << workers << " workers, " << batches << " batches");
    drawn_order order(1);
    const assembled_run without = assemble(plain(workers, batches));
    deliver(order);
    const assembled_run with = assemble(summed(plain(workers, batches)));
    deliver_to_end(order, with);
    expect_balanced(with);
    const std::vector<float> want = without.weights();
    float scale = 0;
    for (const float w : want) scale = std::max(scale, std::abs(w));
    ASSERT_THAT(with.weights(), Pointwise(FloatNear(1e-6F * scale), want));
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t w = 0; w < workers; ++w) {
        const worker_account& a = with.outcome().shards[s].workers[w];
        const worker_account& b = without.outcome().shards[s].workers[w];
        EXPECT_EQ(to_string(a.ledger), to_string(b.ledger));
        EXPECT_EQ(a.gaps.buckets(), b.gaps.buckets());
      }
  }
}

TEST_F(SummedRuns, GiveTheSameBitsInEveryOrderOfMessages) {
  const std::vector<float> first = drawn_weights(summed(plain()));
  for (const drawn_order& order : drawn_orders(summed_orders))
    ASSERT_EQ(drawn_weights(summed(plain()), order), first);
}

TEST_F(SummedRuns, EndWheneverTheyAreStopped) {
  const auto stop = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(250));
    send_anonymously(run.coordinator_actor, stop_training{"enough"});
  };
  in_orders(drawn_orders(summed_orders), summed(plain()), stop, [](const assembled_run& run) {
    expect_balanced(run);
    EXPECT_NE(run.outcome().how, ending::failed) << run.outcome().why;
  });
}

TEST_F(SummedRuns, GoOnWithoutAWorkerThatLeaves) {
  std::uint64_t whole = 0;
  const auto leave = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(250));
    send_anonymously(run.devices[order.below(3)], leave_run{});
  };
  in_orders(drawn_orders(summed_orders), summed(plain()), leave, [&](const assembled_run& run) {
    expect_completed(run);
    for (const shard_report& s : run.outcome().shards) EXPECT_EQ(judged_by(s) + run.outcome().untrained, 13U);
    if (run.outcome().untrained == 0) ++whole;
  });
  EXPECT_GT(whole, 0U);
}

TEST_F(SummedRuns, EndWhenOneWorkerDivergesOrFails) {
  const auto expect_ends = [&](failing_runner::how what, ending how, const char* why) {
    in_orders(drawn_orders(summed_orders), failing(what), [&](const assembled_run& run) {
      expect_balanced(run);
      EXPECT_EQ(run.outcome().how, how);
      EXPECT_THAT(run.outcome().why, HasSubstr(why));
    });
  };
  expect_ends(failing_runner::how::diverges, ending::diverged, "worker 1 at its step 3");
  expect_ends(failing_runner::how::throws, ending::failed, "a kernel failed");
}

/// What a worker has of its sums, from which it is not let go once it has died, as MPI does it.
class mortal_sums final : public net::all_reduce {
public:
  struct fate {
    bool has_died = false;
    std::shared_ptr<net::all_reduce> waited_for{};
  };

  mortal_sums(std::shared_ptr<net::all_reduce> own, std::shared_ptr<fate> what)
      : own_(std::move(own)), fate_(std::move(what)) {}
  ~mortal_sums() override {
    if (fate_->has_died) fate_->waited_for = std::move(own_);
  }
  mortal_sums(const mortal_sums&) = delete;
  mortal_sums& operator=(const mortal_sums&) = delete;
  void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum done) override {
    own_->add(values, std::move(keeps), std::move(done));
  }

private:
  std::shared_ptr<net::all_reduce> own_;
  std::shared_ptr<fate> fate_;
};

TEST_F(SummedRuns, FailWhenAWorkerIsLostAndNameIt) {
  std::uint64_t failed = 0;
  const drawn_orders tried(summed_orders, summed_orders / 4); // few of them fail
  for (drawn_order& order : tried) {
    const auto fate = std::make_shared<mortal_sums::fate>();
    assembly a = summed(plain());
    a.sums = [with = a.sums, fate](rank worker) -> std::shared_ptr<net::all_reduce> {
      if (worker != rank{1}) return with(worker);
      return std::make_shared<mortal_sums>(with(worker), fate);
    };
    const assembled_run run = assemble(a);
    deliver(order, order.below(250));
    fate->has_died = true;
    kill(run.devices[1]);
    deliver(order);
    const bool finished = run.times_ended() == 0; // before it could die, and nobody holds it in the sums
    if (finished) fate->waited_for.reset();
    deliver_to_end(order, run);
    expect_balanced(run);
    if (run.outcome().how != ending::failed) continue;
    EXPECT_FALSE(finished) << "somebody waits for somebody who is gone";
    EXPECT_EQ(run.weights().size(), run.layout().size()) << "a shard is lost as well";
    ++failed;
    EXPECT_THAT(run.outcome().why, HasSubstr("worker 1 is lost, and the sums of MPI need all of them"));
  }
  EXPECT_GT(failed, tried.count() / 5);
}

TEST_F(SummedRuns, SayThatAWorkerWaitsForASum) {
  assembly a = plain(2);
  a.sums = [](rank worker) { return net::played_sums(2).join(worker.value); }; // the other never joins it
  drawn_order order(1);
  const assembled_run run = assemble(a);
  deliver(order);
  send_anonymously(run.coordinator_actor, list_wait_reasons{});
  deliver(order);
  EXPECT_THAT(run.waits(), HasSubstr("worker 0 waits for the sum of the gradients of all workers in step 1"));
}

TEST_F(SummedRuns, AreRefusedWithoutAnythingThatAddsUp) {
  run_plan plan = plan_of(summed(plain()), data_);
  EXPECT_THROW(run_crew(system_.actors(), std::move(plan), {.time = time_}), std::invalid_argument);
}

} // namespace
} // namespace mailgrad::testing
