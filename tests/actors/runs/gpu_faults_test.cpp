#include <mailgrad/actors/protocol/metrics_messages.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/actors/runs/gpu_runs.hpp>
#include <mailgrad/tests/actors/runs/hogwild_checkpoints.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>

#include <cstdlib>
#include <tuple>

// Whole runs on the simulated GPU in which the n-th allocation, kernel or call fails. Whatever n is, a run
// ends once and in order, and tells what failed.

namespace mailgrad::testing {
namespace {

using simulated_gpu::counters, simulated_gpu::faults;
using ::testing::AllOf, ::testing::HasSubstr;

struct fault_case {
  const char* name;
  const char* policy = "async";
  bool there = false; ///< the weights are on the GPU
  std::uint64_t local_steps = 0;
  const char* cure = "none";
  const char* model = nullptr; ///< null: the small one
  std::uint64_t sample_gap = 0;
  bool mixed = false; ///< shards at several places, and a worker on a core
  bool alone = false; ///< one worker, which trains the batches in their order
  double clip_norm = 0;
  bool spans = false;   ///< the model of each worker spans two streams
  bool resumes = false; ///< goes on from a checkpoint
  bool records = false;
};

struct fault_kind {
  const char* name;
  std::uint64_t counters::*counted;
  std::optional<std::uint64_t> faults::*at;
  const char* words; ///< that the run is to tell
};

constexpr fault_kind fault_kinds[] = {
    {"OutOfMemory", &counters::allocations, &faults::out_of_memory_at, "out of memory"},
    {"OutOfPinnedMemory", &counters::pinned_allocations, &faults::pinned_out_of_memory_at, "out of memory"},
    {"OutOfDriverMemory", &counters::driver_objects, &faults::driver_out_of_memory_at, "out of memory"},
    {"StickyFault", &counters::kernels, &faults::launch_error_at, "illegal memory access"},
    {"LostGpu", &counters::calls, &faults::lost_gpu_at, "the GPU is lost"},
};

constexpr const char* faulty_recommender = "dlrm:width=4,bottom=6,top=8";

constexpr fault_case fault_cases[] = {
    {.name = "HostShards", .policy = "async"},
    {.name = "HostShardsInStep", .policy = "sync"},
    {.name = "WeightsThere", .there = true},
    {.name = "WeightsThereInStep", .policy = "sync", .there = true},
    {.name = "BatchesThere", .policy = "k-batch-async:2", .there = true},
    {.name = "SwitchesThere", .policy = "async, sync@4", .there = true},
    {.name = "LocalSteps", .there = true, .local_steps = 2},
    {.name = "SampledGaps", .there = true, .sample_gap = 2},
    {.name = "Tables", .there = true, .model = faulty_recommender},
    {.name = "Mixed", .there = true, .mixed = true},
    {.name = "AloneThere", .there = true, .alone = true},
    {.name = "Spans", .model = faulty_recommender, .spans = true},
    {.name = "SpansThere", .policy = "sync", .there = true, .model = faulty_recommender, .spans = true},
    {.name = "CuredThere", .policy = "queue:2,3", .there = true, .cure = "dc-asgd-a", .records = true},
    {.name = "ClippedThere", .policy = "ringleader", .there = true, .clip_norm = 0.5, .resumes = true},
    {.name = "ElasticThere", .there = true, .local_steps = 2, .cure = "easgd", .resumes = true},
#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
    {.name = "HogwildThere", .policy = "async, hogwild@4, sync@8", .there = true},
    {.name = "Hogwild", .policy = "async, hogwild@4, sync@8"},
#endif
};

template <class Kind, std::size_t many, class... Names>
constexpr std::array<Kind, sizeof...(Names)> named(const Kind (&all)[many], Names... names) {
  const auto find = [&](std::string_view name) {
    for (const Kind& x : all)
      if (x.name == name) return x;
    throw std::invalid_argument("there is none of this name");
  };
  return {find(names)...};
}

struct remains {
  std::string refused; ///< why no run was assembled; empty: it was
  std::optional<run_outcome> outcome;
  std::optional<training_report> report;
  kept_checkpoints checkpoints;
  std::vector<float> weights; ///< empty if a shard is lost
  counters counted;
};

class GpuFaults : public GpuRun, public ::testing::WithParamInterface<std::tuple<fault_case, fault_kind>> {
protected:
  GpuFaults() {
    if (what().model) data_ = tastes();
  }

  static const fault_case& what() { return std::get<0>(GetParam()); }
  static const fault_kind& kind() { return std::get<1>(GetParam()); }
  static faults fails_at(std::uint64_t n) {
    faults fail;
    fail.*kind().at = n;
    return fail;
  }

  assembly assembly_of_case() const {
    const fault_case& c = what();
    return {.policy = c.policy,
            .model = c.model ? *built_in_model(c.model) : small_model(),
            .workers = c.alone ? 1U : 3U,
            .shards = c.mixed ? 3U : 2U,
            .optimizer = c.local_steps > 0 ? "sgd" : "momentum",
            .cure = c.cure,
            .local_steps = c.local_steps,
            .sample_gap = c.sample_gap,
            .devices_each = c.spans ? 2U : 1U,
            .micro_batches = c.spans ? 3U : 1U, // of a batch of 4: sizes 2, 1, 1
            .checkpoint_every = 3,
            .clip_norm = c.clip_norm};
  }
  remains run(const faults& fail, std::uint64_t seed) {
    assembly a = assembly_of_case();
    if (what().resumes) a.resume = begun();
    return run(a, fail, seed);
  }
  remains run(assembly a, const faults& fail, std::uint64_t seed) {
    const auto watch = std::make_shared<asked_watch>();
    const auto kept = std::make_shared<kept_checkpoints>();
    drawn_order order(seed);
    remains left;
    std::stringbuf recorded;
    set_up(fail);
    a = place(std::move(a), watch);
    a.checkpoint_writer = spawn_writer([kept](const write_checkpoint& x) { return keep(x, *kept); });
    if (what().records && !a.resume) a.recorder = record_into(file_in(recorded, a));
    try {
      const assembled_run run = assemble(a);
      play(order, *watch, 60);
      std::vector<listener<shard_read>> test;
      for (const caf::actor& shard : run.shards) test.emplace_back(system_.actors(), shard, read_shard{});
      play(order, *watch);
      left.counted = simulated_gpu::count();
      set_up();
      take(run, left);
      if (a.recorder && left.outcome) expect_recorded(run, left, recorded);
      for (const auto& reader : test) messaging::kill(reader.actor());
    } catch (const std::exception& e) {
      set_up();
      left.refused = e.what();
    }
    messaging::kill(a.checkpoint_writer);
    messaging::kill(a.recorder);
    for (system_.run(); watch->watched() > 0; system_.run()) watch->ask();
    left.checkpoints = *kept;
    return left;
  }

  assembly place(assembly a, const std::shared_ptr<asked_watch>& watch) const {
    if (!what().there && !what().spans) return on_gpu(std::move(a), data_, watch);
    if (what().mixed) return with_weights_mixed(std::move(a), watch);
    for (std::uint32_t stream = 0; what().spans && stream < 2 * a.workers; ++stream)
      a.devices.push_back({device_kind::cuda, 0, stream});
    if (what().there) return with_weights_there(std::move(a), watch);
    a.watch = watch;
    return a;
  }
  /// The recording is whole, and has an entry for each gradient that a shard has judged, but for an update
  /// that failed.
  void expect_recorded(const assembled_run& run, const remains& left, const std::stringbuf& file) {
    messaging::send_anonymously(run.feeder_actor, end_recording{std::make_shared<recording_end>(
                                                      end_of(*left.outcome, *left.report))});
    system_.run();
    const recording order = parse_recording(file.view(), "memory");
    EXPECT_THAT(order.end.why, ::testing::StartsWith(left.outcome->why));
    for (std::size_t i = 0; i < order.entries.size(); ++i) {
      const shard_report& s = left.outcome->shards[i];
      const auto gradients = static_cast<std::uint64_t>(
          std::ranges::count(order.entries[i], order_entry::kind::gradient, &order_entry::what));
      if (!s.values) continue; // it was lost, and its books with it
      EXPECT_LE(gradients, judged_by(s)) << i;
      EXPECT_TRUE(left.outcome->how != run_outcome::ending::completed || gradients == judged_by(s)) << i;
    }
  }
  /// The checkpoint that runs of a case go on from which resumes.
  const std::shared_ptr<const checkpoint>& begun() {
    if (!begun_) begun_ = run(assembly_of_case(), {}, 1).checkpoints.at(1);
    return begun_;
  }
  /// The run that goes on from the newest checkpoint trains what is left.
  void expect_resumable(const remains& left) {
    if (left.checkpoints.empty()) return;
    assembly a = assembly_of_case();
    a.resume = left.checkpoints.back();
    const remains rest = run(a, {}, 2);
    ASSERT_TRUE(rest.outcome) << rest.refused;
    EXPECT_EQ(rest.outcome->how, run_outcome::ending::completed) << rest.outcome->why;
    if (a.local_steps > 0) return; // those that were not pushed are lost
    EXPECT_EQ(rest.report->steps, a.batches);
    EXPECT_EQ(rest.report->samples, a.batches * a.batch);
  }
  /// A run that says that it is complete has each update. After switches their number depends on the order,
  /// and under ringleader, whose updates take what has come.
  void expect_all_trained(const remains& left, const remains& whole) {
    const assembly a = assembly_of_case();
    EXPECT_EQ(left.report->steps, a.batches);
    EXPECT_EQ(left.report->samples, a.batches * a.batch);
    EXPECT_EQ(left.weights.size(), whole.weights.size());
    if (a.policy.find(',') != std::string::npos || a.policy == "ringleader") return;
    for (std::size_t i = 0; i < whole.outcome->shards.size(); ++i)
      EXPECT_EQ(left.outcome->shards[i].version.value, whole.outcome->shards[i].version.value) << i;
  }
  /// The weights that one worker leaves behind are those of a run that ends with as many updates.
  void expect_weights_of_versions(const remains& left) {
    if (!what().alone || left.weights.empty()) return;
    std::size_t at = 0;
    for (const shard_report& s : left.outcome->shards) {
      const std::vector<float>& expected = weights_after(s.version.value);
      for (std::size_t i = 0; i < s.values.size() && !expected.empty(); ++i)
        EXPECT_NEAR(s.values.on_host()[i], expected[at + i], 1e-5) << "version " << s.version.value;
      at += s.values.size();
    }
  }
  /// Empty for no update.
  const std::vector<float>& weights_after(std::uint64_t updates) {
    std::vector<float>& known = after_[updates];
    if (!known.empty() || updates == 0) return known;
    assembly a = assembly_of_case();
    a.batches = updates;
    return known = run(a, {}, 1).weights;
  }

  static void take(const assembled_run& run, remains& left) {
    EXPECT_EQ(run.times_ended(), 1U) << run.waits();
    if (run.times_ended() != 1) return;
    expect_balanced(run);
    left.outcome = run.outcome();
    left.report = report_of(run.outcome(), run.written());
    const auto is_there = [](const shard_report& s) { return static_cast<bool>(s.values); };
    if (std::ranges::all_of(left.outcome->shards, is_there)) left.weights = run.weights();
  }

private:
  std::map<std::uint64_t, std::vector<float>> after_; ///< by the number of updates
  std::shared_ptr<const checkpoint> begun_;
};

std::string name_of_fault(const ::testing::TestParamInfo<std::tuple<fault_case, fault_kind>>& info) {
  return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
}

bool is_one_line(const std::string& words) { return !words.empty() && words.find('\n') == std::string::npos; }

TEST_P(GpuFaults, EndARunOnceAndInOrderWhereverTheyCome) {
  const remains whole = run({}, 1);
  ASSERT_TRUE(whole.outcome);
  ASSERT_EQ(whole.outcome->how, run_outcome::ending::completed) << whole.outcome->why;
  const std::uint64_t all = whole.counted.*kind().counted;
  const bool lacks_memory = std::string_view(kind().words) == "out of memory";
  std::uint64_t failed = 0, refused = 0;
  const bool tries_each = std::getenv("MAILGRAD_EVERY_FAULT"); // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t each = tries_each ? 1 : std::max<std::uint64_t>(1, all / 12);
  for (std::uint64_t n = 1; n <= all; n += each) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    const remains left = run(fails_at(n), 1);
    if (!left.refused.empty()) {
      ++refused;
      EXPECT_TRUE(is_one_line(left.refused));
      EXPECT_THAT(left.refused, AllOf(HasSubstr(kind().words), HasSubstr(lacks_memory ? ", for " : "")));
      continue;
    }
    ASSERT_TRUE(left.outcome);
    if (left.outcome->how == run_outcome::ending::completed) {
      EXPECT_EQ(std::ranges::count(left.outcome->lost, true), 0)
          << "a worker has failed, and others did its work";
      expect_all_trained(left, whole);
      if (HasFailure()) return;
      continue;
    }
    EXPECT_EQ(left.outcome->how, run_outcome::ending::failed);
    EXPECT_TRUE(is_one_line(left.outcome->why)) << left.outcome->why;
    EXPECT_THAT(left.outcome->why, HasSubstr(kind().words));
    const bool says_step_0 = left.outcome->why.find("at its step 0:") != std::string::npos;
    EXPECT_FALSE(what().resumes && says_step_0) << "it has gone on from a later one";
    if (lacks_memory) {
      const bool tells_how_much = kind().counted != &counters::driver_objects; // the driver does not
      EXPECT_THAT(left.outcome->why,
                  AllOf(HasSubstr(tells_how_much ? " asked for" : ""), HasSubstr(", for ")));
      const bool is_begun = left.outcome->why.find(" is lost: ") == std::string::npos;
      // A shard may be lost before a step is trained. A run of threads begins when all have their memory.
      const std::uint64_t before = what().resumes ? card_of(*begun()).steps : 0;
      EXPECT_TRUE(is_begun || left.report->steps == before) << left.outcome->why;
      EXPECT_EQ(left.weights.empty(), !is_begun) << "they are whole, and yet lost: " << left.outcome->why;
      expect_weights_of_versions(left);
    }
    if (++failed % 4 == 0) expect_resumable(left);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(all == 0 || failed + refused > 0) << "none has struck";
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuFaults,
                         ::testing::Combine(::testing::ValuesIn(fault_cases),
                                            ::testing::ValuesIn(fault_kinds)),
                         name_of_fault);

// ---- runs with checkpoints: what lacks for one alone does not end them, and what ends them is followed by a last one

class GpuFaultsOfCheckpoints : public GpuFaults {};

/// As on the host, where a full disk does not end a run either.
TEST_P(GpuFaultsOfCheckpoints, LetTheRunGoOn) {
  const std::uint64_t all = run({}, 1).counted.*kind().counted;
  std::uint64_t failed = 0;
  for (std::uint64_t n = all / 2; n <= all; n += 2) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    const remains left = run(fails_at(n), 1);
    if (!left.outcome || left.outcome->checkpoints.failed == 0) continue;
    ++failed;
    EXPECT_EQ(left.outcome->how, run_outcome::ending::completed) << left.outcome->why;
    EXPECT_EQ(left.report->samples, 48U);
    EXPECT_THAT(left.outcome->checkpoints.failure, HasSubstr("a copy on the host of what a checkpoint has"));
  }
  EXPECT_GT(failed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuFaultsOfCheckpoints,
                         ::testing::Combine(::testing::Values(fault_cases[2], fault_cases[6]),
                                            ::testing::Values(fault_kinds[1])),
                         name_of_fault);

class GpuFaultsOfWorkers : public GpuFaults {};

/// The weights lie on the host, and the others train on until the checkpoint is collected.
TEST_P(GpuFaultsOfWorkers, AreFollowedByALastCheckpoint) {
  const std::uint64_t all = run({}, 1).counted.*kind().counted;
  std::uint64_t failed = 0, kept = 0;
  for (std::uint64_t n = all / 4; n < all; n += std::max<std::uint64_t>(1, all / 16)) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    assembly a = assembly_of_case();
    a.checkpoint_every = 0;
    const remains left = run(a, fails_at(n), 1);
    ASSERT_TRUE(left.outcome);
    if (left.outcome->how == run_outcome::ending::completed) continue;
    ++failed;
    ASSERT_FALSE(left.checkpoints.empty());
    kept += card_of(*left.checkpoints.back()).steps == left.report->steps ? 1 : 0;
    expect_resumable(left);
  }
  EXPECT_GT(failed, 4U);
  EXPECT_GT(kept, 0U) << "none has all that was trained";
}

INSTANTIATE_TEST_SUITE_P(
    Runs, GpuFaultsOfWorkers,
    ::testing::Combine(::testing::ValuesIn(named(fault_cases, "HostShards", "HostShardsInStep", "Spans")),
                       ::testing::ValuesIn(named(fault_kinds, "StickyFault", "LostGpu"))),
    name_of_fault);

class GpuMemoryOfWorkers : public GpuFaults {};

/// Also if a step is under way, such as when a worker that runs ahead needs another gradient.
TEST_P(GpuMemoryOfWorkers, IsLackingBeforeALastCheckpoint) {
  const std::uint64_t all = run({}, 1).counted.allocations;
  std::uint64_t failed = 0;
  for (std::uint64_t n = all / 2; n <= all; n += std::max<std::uint64_t>(1, all / 32)) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    assembly a = assembly_of_case();
    a.checkpoint_every = 0;
    const remains left = run(a, {.out_of_memory_at = n}, 1);
    if (!left.refused.empty() || left.outcome->why.find("has failed: ") != std::string::npos) continue;
    if (left.outcome->how == run_outcome::ending::completed) continue;
    EXPECT_THAT(left.outcome->why, HasSubstr("out of memory"));
    ASSERT_FALSE(left.checkpoints.empty()) << left.outcome->why;
    if (++failed % 4 == 0) expect_resumable(left);
  }
  EXPECT_GT(failed, 3U) << "those of shards are not meant";
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuMemoryOfWorkers,
                         ::testing::Combine(::testing::ValuesIn(named(fault_cases, "WeightsThere", "Spans",
                                                                      "SpansThere")),
                                            ::testing::ValuesIn(named(fault_kinds, "OutOfMemory"))),
                         name_of_fault);

} // namespace
} // namespace mailgrad::testing
