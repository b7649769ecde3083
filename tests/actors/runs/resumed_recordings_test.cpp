#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>

// The recording of a run that goes on from a checkpoint goes on as well, and is repeated from the beginning.

namespace mailgrad::testing {
namespace {

constexpr std::uint64_t resumed_orders = 12, least_resumed = 4; // each takes many runs

/// A checkpoint, and what the file of the recording held when that was about to be written.
struct killed_here {
  std::shared_ptr<const checkpoint> from;
  std::string recorded;
};

struct recorded_and_kept {
  finished_run run;
  std::vector<killed_here> kept;
};

class ResumedRecordings : public RecordedRun {
protected:
  /// Takes checkpoints as if the run were killed right behind each.
  caf::actor spawn_watching_writer(const std::stringbuf& recorded, std::vector<killed_here>& into) {
    return spawn_writer([&](const write_checkpoint& x) {
      kept_checkpoints kept;
      auto done = keep(x, kept);
      into.push_back({kept.back(), std::string(recorded.view())});
      return done;
    });
  }
  /// Runs and records `a`, behind what was recorded before.
  recorded_and_kept record(assembly a, drawn_order& order, const recording* before = nullptr) {
    std::stringbuf bytes;
    std::vector<killed_here> kept;
    const auto file = file_in(bytes, a);
    recording_cut begins(a.shards);
    if (before) write_again(*file, *before);
    for (std::uint32_t s = 0; before && s < a.shards; ++s) begins.add(s, before->entries[s]);
    a.recorder = record_into(file, begins);
    a.checkpoint_writer = spawn_watching_writer(bytes, kept);
    std::optional<recorded_and_kept> ended;
    {
      const assembled_run run = assemble(a);
      deliver(order);
      EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
      if (run.times_ended() == 1)
        ended = recorded_and_kept{finished(run, bytes, [&] { deliver(order); }), kept};
    }
    messaging::kill(a.recorder);
    messaging::kill(a.checkpoint_writer);
    deliver(order);
    return ended.value();
  }
  /// What of the killed run's recording lies before the checkpoint. Nothing if a worker had left by then.
  static std::optional<recording> before(const killed_here& k) {
    kept_schedule schedule;
    k.from->part("run")->field("schedule", schedule);
    feeder_position feeder;
    k.from->part("feeder")->field("feeder", feeder);
    const recording killed = parse_killed_recording(k.recorded, "memory");
    try {
      return part_before(killed, k.from->object<recording_cut>(recording_part), feeder.trained,
                         schedule.done.size());
    } catch (const recording_error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("had left before the checkpoint"));
      return std::nullopt;
    }
  }
  /// Goes on from each checkpoint of a run, and once more, and repeats each. Returns how many went on.
  std::size_t resume_and_repeat(assembly a, drawn_order& order) {
    a.batches = 18;
    a.checkpoint_every = 3 + order.seed() % 3;
    const recorded_and_kept was = record(a, order);
    std::size_t resumed = 0;
    assembly plain = a;
    plain.checkpoint_every = 0;
    for (const killed_here& k : was.kept) {
      SCOPED_TRACE("resumed from " + k.from->path().string());
      const auto is = go_on(a, k, order);
      if (!is) continue;
      ++resumed;
      EXPECT_EQ(is->run.report.steps, a.batches);
      expect_repeatable(plain, is->run, order.seed());
      if (is->kept.empty()) continue;
      SCOPED_TRACE("and once more");
      if (const auto again = go_on(a, is->kept.front(), order))
        expect_repeatable(plain, again->run, order.seed());
    }
    return resumed;
  }
  /// Nothing if the recording cannot go on.
  std::optional<recorded_and_kept> go_on(assembly a, const killed_here& k, drawn_order& order) {
    const std::optional<recording> earlier = before(k);
    if (!earlier) return std::nullopt;
    a.resume = k.from;
    return record(a, order, &*earlier);
  }
};

class ResumedRecordingsOf : public ResumedRecordings, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResumedRecordingsOf, AreRepeatedFromTheBeginning) {
  std::size_t resumed = 0;
  for (const std::uint32_t shards : {1U, 3U})
    for (drawn_order& order : drawn_orders(resumed_orders, least_resumed))
      resumed += resume_and_repeat({.policy = GetParam(), .shards = shards}, order);
  EXPECT_GT(resumed, drawn_orders(resumed_orders, least_resumed).count());
}

/// No checkpoint can be whole then, and the run ends all the same.
TEST_F(ResumedRecordings, EndWhenTheRecorderIsLost) {
  for (drawn_order& order : drawn_orders(resumed_orders * 5)) {
    std::stringbuf bytes;
    std::vector<killed_here> kept;
    assembly a{.checkpoint_every = 2};
    a.recorder = messaging::spawn<recorder>(
        system_.actors(),
        recorder_options{file_in(bytes, a), [](const std::string&) {}, recording_cut(a.shards)});
    a.checkpoint_writer = spawn_watching_writer(bytes, kept);
    {
      const assembled_run run = assemble(a);
      deliver(order, order.below(200));
      messaging::kill(a.recorder);
      deliver(order);
      EXPECT_EQ(run.times_ended(), 1U) << "somebody waits";
      EXPECT_TRUE(run.times_ended() == 0 || run.outcome().how == run_outcome::ending::completed);
    }
    messaging::kill(a.checkpoint_writer);
    deliver(order);
  }
}

/// Cures and local steps keep state of each worker.
TEST_F(ResumedRecordings, OfEveryCureAndLocalStepsAreRepeated) {
  std::size_t repeated = 0;
  for (const treated_run& t : treated_runs)
    for (drawn_order& order : drawn_orders(resumed_orders / 2, least_resumed / 2)) {
      SCOPED_TRACE(std::string(t.cure) + " " + t.policy + " local steps " + std::to_string(t.local_steps));
      repeated += resume_and_repeat(treated(t), order);
    }
  EXPECT_GT(repeated, 0U);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ResumedRecordingsOf, ::testing::ValuesIn(kept_policies),
                         name_of_policy);

} // namespace
} // namespace mailgrad::testing
