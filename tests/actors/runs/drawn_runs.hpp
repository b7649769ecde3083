#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <ostream>
#include <sstream>
#include <stdexcept>

// Whole runs on the test's own thread, in drawn orders of messages, and what must hold at the end of any.

namespace mailgrad::testing {

/// Every policy whose updates have an order, which a run can record, and two runs that switch between
/// several. All but hogwild are among them, as a test of replays makes sure.
inline constexpr auto ordered_policies = std::to_array<const char*>(
    {"async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2", "k-batch-async:2", "k-batch-sync:2",
     "rennala:3", "ringmaster:2", "malenia:4", "ringleader", "queue:2,3", "quorum:2,grace=0.0005",
     "sync, queue:1,3@3, queue:2,2@7, async@10", "ringleader, malenia:2@4, ringleader@8",
     "async, sync@4, ssp:1@8", "sync, backup:1@3, k-async:2@7, async@10"});

/// Those under which runs are kept and go on.
inline constexpr auto kept_policies = std::to_array<const char*>(
    {"async", "sync", "ssp:1", "dssp:0,2", "backup:1", "k-async:2", "k-batch-async:2", "k-batch-sync:2",
     "rennala:2", "ringmaster:2", "malenia:4", "ringleader", "async, sync@5, async@9", "sync, ssp:1@6"});

template <class Holds, class Policies = decltype(ordered_policies)>
std::vector<const char*> policies_of_which(Holds holds, const Policies& all = ordered_policies) {
  std::vector<const char*> some(all.begin(), all.end());
  std::erase_if(some, [&](const char* policy) { return !holds(policy); });
  return some;
}
inline std::string name_of_policy(const ::testing::TestParamInfo<const char*>& policy) {
  return test_name(policy.param);
}
/// Whether a policy may discard a gradient though nobody died.
inline bool may_discard(std::string_view policy) {
  return std::ranges::any_of(std::array{"backup", "k-batch-sync", "rennala", "ringmaster", "malenia"},
                             [&](const char* name) { return policy.find(name) != policy.npos; });
}
using policy_on_shards = std::tuple<const char*, std::uint32_t>;
inline std::string name_on_shards(const ::testing::TestParamInfo<policy_on_shards>& run) {
  return test_name(std::get<0>(run.param)) + "On" + std::to_string(std::get<1>(run.param));
}

/// A cure, the optimiser and local steps that it needs, and one policy or several.
struct treated_run {
  const char* cure;
  const char* optimizer = "momentum";
  std::uint64_t local_steps = 0;
  const char* policy = "async";
  const char* outer = "sgd"; ///< the optimiser of the shards, if there are local steps
};

inline void PrintTo(const treated_run& t, std::ostream* out) {
  *out << t.cure << ' ' << t.optimizer << ' ' << t.local_steps << ' ' << t.policy << ' ' << t.outer;
}

/// Runs with every kind of cure, and runs with local steps under every kind of policy.
inline constexpr auto treated_runs =
    std::to_array<treated_run>({{"inverse"},
                                {"fedbuff", "sgd", 2, "k-batch-async:2"},
                                {"dc-asgd"},
                                {"dc-asgd-a", "adam", 0, "k-async:2"},
                                {"delay-feedback", "sgd", 0, "async"},
                                {"gap-aware", "momentum", 0, "async, ssp:1@5, async@9"},
                                {"dana-zero", "sgd"},
                                {"dana-slim", "sgd", 0, "ssp:1"},
                                {"dana-dc", "sgd", 0, "async, ringmaster:2@6"},
                                {"easgd", "nesterov", 3},
                                {"easgd:0.5", "sgd", 1},
                                {"easgd", "sgd", 2, "sync"},
                                {"easgd", "sgd", 1, "async, sync@5, async@9"},
                                {"momentum-compensation"},
                                {"cgad", "sgd", 2, "async", "adam"},
                                {"mla", "sgd", 3, "async", "nesterov"},
                                {"heloco", "sgd", 2, "k-batch-async:2", "nesterov"},
                                {"none", "adam", 2, "sync"},
                                {"none", "sgd", 3, "backup:1, async@7"},
                                {"none", "sgd", 5, "rennala:2"}});

/// Plain SGD without a cure.
constexpr treated_run plain_under(const char* policy) { return {"none", "sgd", 0, policy}; }

inline std::string name_of_treated(const ::testing::TestParamInfo<treated_run>& info) {
  const auto& [cure, optimizer, local_steps, policy, outer] = info.param;
  return test_name(std::string(cure) + ' ' + optimizer + ' ' + std::to_string(local_steps) + ' ' + policy);
}

inline assembly treated(const treated_run& t) {
  return {.policy = t.policy,
          .optimizer = t.optimizer,
          .cure = t.cure,
          .local_steps = t.local_steps,
          .outer_optimizer = t.outer};
}

inline void expect_same_bits(const std::vector<float>& was, const std::vector<float>& is) {
  ASSERT_EQ(was.size(), is.size());
  ASSERT_EQ(0, std::memcmp(was.data(), is.data(), was.size() * sizeof(float)));
}

inline void expect_balanced(const assembled_run& run) {
  const run_outcome& outcome = run.outcome();
  const audited_ledger audited = audit(outcome, run.written());
  EXPECT_TRUE(audited.ledger.balances()) << to_string(audited.ledger);
  EXPECT_THAT(audited.contradictions, ::testing::IsEmpty());
  for (const shard_report& s : outcome.shards)
    for (const worker_account& account : s.workers) {
      EXPECT_TRUE(account.ledger.balances()) << to_string(account.ledger);
      EXPECT_FALSE(account.ledger.discarded.contains("other epoch")) << "a fence let a gradient through";
      EXPECT_EQ(account.ledger.applied + account.ledger.merged, account.gaps.total());
      EXPECT_EQ(account.ledger.discarded_in_all(), account.discarded_gaps.total());
    }
}

inline void expect_completed(const assembled_run& run) {
  EXPECT_EQ(run.outcome().how, run_outcome::ending::completed) << run.outcome().why;
  expect_balanced(run);
}

/// How many gradients one shard has judged: applied, merged or discarded, or waiting in a batch.
inline std::uint64_t judged_by(const shard_report& s) {
  std::uint64_t judged = 0;
  for (const worker_account& account : s.workers) judged += account.ledger.produced - account.unjudged;
  return judged;
}

/// Expects that one shard got each step of one worker exactly once, and in order.
inline void expect_each_step_once(const worker_account& account, const exchange_notes& notes) {
  std::vector<std::uint64_t> in_order(account.last_step.value);
  std::iota(in_order.begin(), in_order.end(), 1U);
  EXPECT_EQ(notes.steps_pushed, in_order);
  EXPECT_EQ(account.ledger.produced, in_order.size());
}

/// The sum of (gap + 1) over the gradients of one account, which is how many versions their worker passed.
inline std::uint64_t versions_passed(const worker_account& account) {
  std::uint64_t sum = 0;
  for (const auto& [gap, count] : account.gaps.buckets()) sum += (gap + 1) * count;
  return sum;
}

/// Expects the staleness of a run with M workers and U updates to add up to (M - 1) U.
///
/// This holds if every worker is always busy and each gradient makes a version. For each worker, each of the
/// U versions is then its own, or it counts once: in a gap, in the age of the weights that the worker holds
/// at the end, or as missed before its first read. `notes` are those of this shard, by rank.
inline void expect_staleness_conserved(const shard_report& shard,
                                       const std::vector<const exchange_notes*>& notes) {
  std::uint64_t gaps = 0;
  std::uint64_t ages_at_the_end = 0;
  std::uint64_t missed_at_the_start = 0;
  for (std::size_t r = 0; r < notes.size(); ++r) {
    const std::vector<std::uint64_t>& read = notes[r]->versions_read;
    ASSERT_FALSE(read.empty());
    EXPECT_EQ(read.back() - read.front(), versions_passed(shard.workers[r])) << "worker " << r;
    gaps += versions_passed(shard.workers[r]) - shard.workers[r].gaps.total();
    ages_at_the_end += shard.version.value - read.back();
    missed_at_the_start += read.front();
  }
  EXPECT_EQ(gaps + ages_at_the_end, (notes.size() - 1) * shard.version.value - missed_at_the_start);
}

/// Expects that all workers begin each policy epoch with the same version. `notes` as above.
inline void expect_epochs_begin_at_one_version(const std::vector<const exchange_notes*>& notes) {
  std::map<std::uint64_t, std::uint64_t> first_versions; // by epoch; workers begin epoch 0 as they join
  for (const exchange_notes* worker : notes)
    for (std::size_t i = 0; i < worker->epochs_read.size(); ++i) {
      const std::uint64_t epoch = worker->epochs_read[i];
      if (epoch == 0 || (i > 0 && epoch == worker->epochs_read[i - 1])) continue;
      const std::uint64_t first = first_versions.try_emplace(epoch, worker->versions_read[i]).first->second;
      EXPECT_EQ(worker->versions_read[i], first) << "epoch " << epoch;
    }
}

using kept_checkpoints = std::vector<std::shared_ptr<const checkpoint>>;

/// Keeps a checkpoint in memory, as a file would.
inline checkpoint_written keep(const write_checkpoint& x, kept_checkpoints& kept) {
  const std::string where = "checkpoint of step " + std::to_string(x.steps);
  kept.push_back(std::make_shared<const checkpoint>(checkpoint::of(x.parts, where)));
  return {x.number, x.steps, where, {}, 0, 0};
}

/// Does with a checkpoint what the test says, and may leave it without an answer.
class played_writer {
public:
  static constexpr const char* name = "mailgrad.played-writer";
  using writing = std::function<std::optional<checkpoint_written>(const write_checkpoint&)>;

  played_writer(caf::event_based_actor* self, writing write) : self_(self), write_(std::move(write)) {}

  caf::behavior make_behavior() {
    return {messaging::on(self_,
                          [this](const write_checkpoint& x) {
                            if (const auto done = write_(x))
                              messaging::send(self_, messaging::sender_of(self_), *done);
                          }),
            messaging::on(self_, [this](const give_up&) { self_->quit(); })};
  }

private:
  caf::event_based_actor* self_;
  writing write_;
};

struct kept_result {
  std::vector<float> weights;
  run_outcome outcome;
  training_report report;
  kept_checkpoints checkpoints;
};

/// What becomes of the slots of a run, as the test has it.
class comings_and_goings {
public:
  comings_and_goings(assembled_run& run, drawn_order& order, std::uint32_t slots)
      : run_(run), order_(order), incarnations_(slots) {}
  /// One draws what happens: a worker joins, comes back, leaves or is killed.
  void one() {
    const auto r = static_cast<std::uint32_t>(order_.below(incarnations_.size()));
    const std::uint64_t what = order_.below(4);
    const bool never_came = r >= run_.devices.size() || !run_.devices[r];
    // Also in place of an incarnation that is still there, and has not been missed.
    if (never_came || what == 0) return run_.add_worker(r, incarnations_[r] += never_came ? 0 : 1);
    if (what == 1) return messaging::send_anonymously(run_.devices[r], leave_run{});
    messaging::kill(run_.devices[r]);
  }

private:
  assembled_run& run_;
  drawn_order& order_;
  std::vector<std::uint32_t> incarnations_;
};

/// Has `check` compare a run of `a` with those that go on from its checkpoints, which are `least` or more.
template <class Play, class Check>
void go_on_from_each(std::size_t least, assembly a, Play play, Check check) {
  const kept_result was = play(a);
  EXPECT_GE(was.checkpoints.size(), least);
  for (const auto& from : was.checkpoints) {
    SCOPED_TRACE("resumed from " + from->path().string());
    a.resume = from;
    check(was, play(a));
  }
}

/// Fixture of tests of whole runs on the test's own thread. Their messages arrive in randomly drawn orders.
class DrawnRuns : public ::testing::Test {
protected:
  /// Makes the actors of a run. They do nothing until deliver().
  assembled_run assemble(const assembly& a) { return {system_.actors(), a, data_, time_}; }
  /// Delivers at most `most` messages, and returns how many. Up to a microsecond passes after each one.
  std::size_t deliver(drawn_order& order, std::size_t most = deterministic_system::endless) {
    return system_.deliver(order, most,
                           [&] { time_->advance(instant{static_cast<instant::rep>(order.below(1000))}); });
  }
  /// Delivers messages until the run ends, which it has to do once.
  void deliver_to_end(drawn_order& order, const assembled_run& run) {
    deliver(order);
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits:\n" << why_it_waits(run, order);
    if (run.times_ended() == 0) throw std::runtime_error("the run has not ended");
  }
  /// The weights with which a run of `a` completes, with books that balance.
  std::vector<float> drawn_weights(const assembly& a, drawn_order order = drawn_order(0)) {
    const assembled_run run = assemble(a);
    deliver_to_end(order, run);
    expect_completed(run);
    return run.weights();
  }
  /// Delivers messages and ends late steps in a drawn order until neither is left; at most `most` of them.
  template <class Steps>
  void play(drawn_order& order, Steps& steps, std::size_t most = deterministic_system::endless) {
    for (std::size_t played = 0; played < most; ++played) {
      if (order.below(4) == 0 && steps.end_one()) continue;
      if (deliver(order, 1) == 0 && !steps.end_one()) return;
    }
  }
  /// How many messages a run takes that nobody disturbs.
  std::size_t length_of(const assembly& a) {
    drawn_order order(0);
    const assembled_run run = assemble(a);
    return deliver(order);
  }
  /// Plays runs of `a` to their end, at which `check` looks. `disturb` does something to a run before.
  template <class Disturb, class Check>
  void in_orders(const drawn_orders& orders, const assembly& a, Disturb disturb, Check check) {
    for (drawn_order& order : orders) {
      assembled_run run = assemble(a);
      disturb(run, order);
      deliver_to_end(order, run);
      check(run);
    }
  }
  template <class Check>
  void in_orders(const drawn_orders& orders, const assembly& a, Check check) {
    in_orders(
        orders, a, [](const assembled_run&, drawn_order&) {}, check);
  }

  caf::actor spawn_writer(played_writer::writing write) {
    return messaging::spawn<played_writer>(system_.actors(), std::move(write));
  }
  /// The checkpoints of a run of `a`, which `use` plays.
  template <class Use>
  kept_checkpoints checkpoints_of(assembly a, drawn_order& order, Use use) {
    const auto kept = std::make_shared<kept_checkpoints>();
    a.checkpoint_writer = spawn_writer([kept](const write_checkpoint& x) { return keep(x, *kept); });
    {
      assembled_run run = assemble(a);
      use(run, *kept);
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
    return *kept;
  }
  /// What a run of `a` comes to, whose messages `deliver_all` delivers. It has to end.
  template <class DeliverAll>
  kept_result finish_keeping(const assembly& a, drawn_order& order, DeliverAll deliver_all) {
    std::optional<kept_result> ended;
    auto kept = checkpoints_of(a, order, [&](const assembled_run& run, const kept_checkpoints&) {
      deliver_all();
      ASSERT_EQ(run.times_ended(), 1U) << why_it_waits(run, order);
      EXPECT_EQ(run.outcome().why, "");
      expect_balanced(run);
      ended = kept_result{run.weights(), run.outcome(), report_of(run.outcome(), run.written()), {}};
    });
    ended.value().checkpoints = std::move(kept);
    return *ended;
  }
  /// Empty of a run that has ended.
  std::string why_it_waits(const assembled_run& run, drawn_order& order) {
    if (run.times_ended() > 0) return "";
    messaging::send_anonymously(run.coordinator_actor, list_wait_reasons{});
    deliver(order);
    return run.waits();
  }

  deterministic_system system_;
  std::shared_ptr<const data_split> data_ = small_data();
  const std::shared_ptr<manual_time> time_ = std::make_shared<manual_time>();
};

// ---- runs that are recorded and repeated

struct finished_run {
  recording order;
  run_outcome outcome;
  training_report report;
  std::vector<float> weights;
};

/// The terms that a rehearsal of `a` needs.
inline replay_terms terms_of(const assembly& a) {
  const bool elastic = cure_spec(a.cure, a.workers).traits().pull.has_value();
  return {parse_policy_schedule(a.policy, std::max(a.workers, a.slots)).front().policy.text(), a.local_steps,
          elastic, a.batches};
}

/// Fixture of tests that record a run in one order of delivery and repeat it in others.
class RecordedRun : public DrawnRuns {
protected:
  static constexpr std::uint64_t replays_of_each = 3;
  /// The file of the recorder of `a`, in memory.
  static std::shared_ptr<recording_writer> file_in(std::streambuf& bytes, const assembly& a) {
    return std::make_shared<recording_writer>(std::make_unique<std::ostream>(&bytes), "memory",
                                              recording_header{a.workers, a.shards, {}, {}, a.slots});
  }
  /// Spawns a recorder. `before`: what its file holds.
  caf::actor record_into(std::shared_ptr<recording_writer> file,
                         const recording_cut& before = recording_cut()) {
    return messaging::spawn<recorder>(
        system_.actors(),
        recorder_options{std::move(file), [](const std::string& failure) { EXPECT_EQ(failure, ""); },
                         before});
  }
  /// Ends the recording of a run that has ended.
  template <class DeliverAll>
  static finished_run finished(const assembled_run& run, const std::stringbuf& bytes,
                               DeliverAll deliver_all) {
    finished_run f{{}, run.outcome(), report_of(run.outcome()), run.weights()};
    messaging::send_anonymously(run.feeder_actor,
                                end_recording{std::make_shared<recording_end>(end_of(f.outcome, f.report))});
    deliver_all();
    f.order = parse_recording(bytes.view(), "memory");
    return f;
  }
  /// Runs and records `a`, which has to end. `disturb` is called before the first message, and then
  /// `deliver_all` delivers messages until none is left.
  template <class Disturb, class DeliverAll>
  finished_run finish_by(DeliverAll deliver_all, assembly a, Disturb disturb) {
    std::stringbuf bytes;
    a.recorder = record_into(file_in(bytes, a));
    assembled_run run = assemble(a);
    disturb(run);
    deliver_all();
    EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
    if (run.times_ended() == 1) return finished(run, bytes, deliver_all);
    messaging::kill(a.recorder);
    deliver_all();
    throw std::runtime_error("the run has not ended");
  }
  template <class Disturb>
  finished_run finish(const assembly& a, drawn_order& order, Disturb disturb) {
    return finish_by([&] { deliver(order); }, a, disturb);
  }
  finished_run finish(const assembly& a, std::uint64_t seed) {
    drawn_order order(seed);
    return finish(a, order, [](const assembled_run&) {});
  }

  static void expect_same(const finished_run& was, const finished_run& is) {
    expect_same_bits(was.weights, is.weights);
    EXPECT_EQ(was.report.ledger, is.report.ledger);
    EXPECT_EQ(was.report.samples, is.report.samples);
    for (std::size_t s = 0; s < was.outcome.shards.size(); ++s) {
      EXPECT_EQ(was.outcome.shards[s].version, is.outcome.shards[s].version);
      for (std::size_t r = 0; r < was.outcome.workers.size(); ++r) {
        const worker_account& before = was.outcome.shards[s].workers[r];
        const worker_account& now = is.outcome.shards[s].workers[r];
        EXPECT_EQ(before.ledger, now.ledger);
        EXPECT_EQ(before.gaps.buckets(), now.gaps.buckets());
        EXPECT_EQ(before.last_step, now.last_step);
      }
    }
    ASSERT_EQ(was.outcome.switches.size(), is.outcome.switches.size());
    for (std::size_t i = 0; i < was.outcome.switches.size(); ++i) {
      EXPECT_EQ(was.outcome.switches[i].step, is.outcome.switches[i].step);
      EXPECT_EQ(was.outcome.switches[i].to, is.outcome.switches[i].to);
      EXPECT_EQ(was.outcome.switches[i].why, is.outcome.switches[i].why);
    }
    expect_same_order(was.order, is.order);
  }

  static void expect_same_order(const recording& was, const recording& is) {
    EXPECT_EQ(was.batches, is.batches);
    EXPECT_EQ(was.end.switches, is.end.switches);
    for (std::size_t s = 0; s < was.entries.size(); ++s) {
      ASSERT_EQ(was.entries[s].size(), is.entries[s].size());
      for (std::size_t i = 0; i < was.entries[s].size(); ++i) {
        const order_entry &before = was.entries[s][i], &now = is.entries[s][i];
        EXPECT_EQ(std::tie(before.what, before.worker, before.step, before.arrived),
                  std::tie(now.what, now.worker, now.step, now.arrived));
      }
    }
  }
  /// The run that repeats a recording of `a`.
  static assembly replay_of(assembly a, const recording& order) {
    a.replayed = std::make_shared<const recording>(order);
    return a;
  }
  /// The same of a recording that can be repeated, which it has to be.
  static assembly checked_replay_of(const assembly& a, const recording& order) {
    require_repeatable(order);
    require_replay_ends(order, terms_of(a));
    return replay_of(a, order);
  }
  /// Repeats a run in other orders of delivery, and expects the same results each time.
  void expect_repeatable(const assembly& a, const finished_run& was, std::uint64_t seed) {
    const assembly replay = checked_replay_of(a, was.order);
    for (std::uint64_t i = 1; i <= replays_of_each; ++i) expect_same(was, finish(replay, seed * 1000 + i));
  }
  /// Records `a` as finish() does, and repeats that.
  template <class Disturb>
  finished_run finish_and_repeat(const assembly& a, drawn_order& order, Disturb disturb) {
    finished_run was = finish(a, order, disturb);
    expect_repeatable(a, was, order.seed());
    return was;
  }
  finished_run finish_and_repeat(const assembly& a, std::uint64_t seed) {
    drawn_order order(seed);
    return finish_and_repeat(a, order, [](const assembled_run&) {});
  }
};

} // namespace mailgrad::testing
