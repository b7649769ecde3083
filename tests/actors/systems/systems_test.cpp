#include <mailgrad/tests/actors/systems/story.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace mailgrad::systems {
namespace {

/// A disk costs ten times as much as all the rest of a story.
[[maybe_unused]] const bool in_memory = [] {
  return std::filesystem::is_directory("/dev/shm") &&
         setenv("TMPDIR", "/dev/shm", 0) == 0; // NOLINT(concurrency-mt-unsafe)
}();

constexpr std::uint64_t parts = 8; // that several processors can play

/// The environment's MAILGRAD_STORIES says how many there are in all parts, MAILGRAD_FIRST_STORY from which
/// seed.
testing::slice stories(std::uint64_t part) {
  const testing::slice all = testing::slice_or("MAILGRAD_STORIES", "MAILGRAD_FIRST_STORY", 1000);
  const std::uint64_t each = (all.size() + parts - 1) / parts,
                      begin = std::min<std::uint64_t>(part * each, all.size());
  return testing::slice(*all.begin() + begin,
                        *all.begin() + std::min<std::uint64_t>(begin + each, all.size()));
}

/// Not what an operator does on purpose.
bool is_fault(const deed& d) {
  using kind = deed::kind;
  return d.what != kind::start && d.what != kind::switches && d.what != kind::checkpoint &&
         d.what != kind::stop;
}

struct DrawnSystems : ::testing::TestWithParam<std::uint64_t> {};

TEST_P(DrawnSystems, KeepTheirPromisesWhateverHappens) {
  std::size_t faults = 0, broken = 0, begun = 0, resumed_to_bits = 0, crashed = 0, on_full_disk = 0;
  for (const std::uint64_t seed : stories(GetParam())) {
    const system_spec s = drawn_system(seed);
    const story deeds = drawn_story(seed, s);
    const played p = play(s, deeds);
    if (testing::asked_number("MAILGRAD_TELL_STORIES")) std::cout << seed << ": " << p.ended << "\n";
    faults += static_cast<std::size_t>(std::ranges::count_if(deeds, is_fault));
    begun += p.begun ? 1 : 0;
    resumed_to_bits += p.judged_bits == played::bits::of_resumed ? 1 : 0;
    crashed += p.crashes > 0 ? 1 : 0;
    on_full_disk += p.refused_writes > 0 ? 1 : 0;
    if (p.broken.empty()) continue;
    const story least = shortened(s, deeds, p.broken);
    ADD_FAILURE() << "story " << seed << " breaks a promise: " << p.broken << "\n"
                  << as_json(s) << "\n"
                  << as_code(least) << "\nended: " << p.ended;
    if (++broken == 5) break;
  }
  const std::size_t all = stories(GetParam()).size();
  EXPECT_TRUE(broken > 0 || 3 * begun >= all) << "most stories say little";
  EXPECT_TRUE(broken > 0 || all < 1000 || 100 * resumed_to_bits >= all) << "few resumed runs were compared";
  EXPECT_TRUE(broken > 0 || all < 1000 || (crashed > 0 && on_full_disk > 0)) << "the disk had no faults";
  std::cout << fmt::format("{} stories with {} faults: {} began, {} resumed to the same bits, {} crashed "
                           "within a write, {} met a full disk\n",
                           all, faults, begun, resumed_to_bits, crashed, on_full_disk);
}

INSTANTIATE_TEST_SUITE_P(Parts, DrawnSystems, ::testing::Range(std::uint64_t{0}, parts));

struct told {
  std::string system;
  story deeds;
};

/// Stories that broke a promise when they were drawn first, as they were shortened then.
TEST(Systems, KeepThePromisesThatOldStoriesBroke) {
  using kind = deed::kind;
  using role = deed::role;
  using namespace std::chrono_literals;
  const std::vector<told> all{
      // A worker came twice before the begin and was gone before its actor had joined: the run waited for
      // ever.
      {R"({"seed": 1296, "policy": "k-batch-sync:1", "workers": 2, "slots": 2, "shards": 3, )"
       R"("batches": 42, "delay": 26, "jitter": 23, "when_alone": 9223372036854775807})",
       {{kind::start, role::worker, 0, 55ms, 0ms, "number"},
        {kind::start, role::worker, 1, 82ms, 0ms, "number"},
        {kind::kill, role::worker, 1, 137ms, 215ms},
        {kind::kill, role::worker, 0, 248ms, 128ms},
        {kind::leave, role::worker, 0, 489ms}}},
      // The same with parameter hosts.
      {R"({"seed": 10180, "policy": "ringmaster:2", "workers": 2, "slots": 4, "shards": 2, "hosts": 2, )"
       R"("batches": 61, "delay": 13, "jitter": 20, "when_alone": 60000000000, "keeps": true})",
       {{kind::start, role::host, 0, 6ms},
        {kind::start, role::worker, 1, 7ms, 0ms, "number"},
        {kind::start, role::host, 1, 50ms},
        {kind::start, role::worker, 0, 89ms, 0ms, "number"},
        {kind::kill, role::worker, 0, 95ms},
        {kind::kill, role::worker, 1, 203ms, 176ms},
        {kind::cut, role::worker, 1, 1461ms, 5801ms},
        {kind::start, role::worker, 2, 1664ms, 0ms, "number"},
        {kind::leave, role::worker, 1, 2375ms}}},
      // A worker of a resumed run was not the first incarnation of its slot.
      {R"({"seed": 10154, "policy": "backup:1", "workers": 3, "slots": 3, "hosts": 1, "batches": 201, )"
       R"("delay": 11, "jitter": 17, "when_alone": 9223372036854775807, "keeps": true, "keeps_each": 7})",
       {{kind::kill, role::worker, 3, 157ms},
        {kind::start, role::worker, 0, 292ms},
        {kind::start, role::worker, 1, 695ms},
        {kind::checkpoint, role::server, 0, 869ms},
        {kind::start, role::worker, 2, 935ms},
        {kind::start, role::host, 0, 1158ms},
        {kind::kill, role::server, 0, 2342ms, 392ms},
        {kind::cut, role::worker, 1, 5263ms, 2623ms},
        {kind::start, role::worker, 3, 5675ms}}},
      // The shards that follow heard of the first checkpoint from the first shard, before the coordinator's
      // word.
      {R"({"seed": 2017, "policy": "k-batch-sync:1", "workers": 2, "slots": 3, "shards": 3, "hosts": 1, )"
       R"("batches": 29, "delay": 25, "jitter": 24, "records": true, "keeps": true})",
       {{kind::start, role::worker, 0, 2ms},
        {kind::start, role::host, 0, 21ms},
        {kind::leave, role::worker, 1, 64ms},
        {kind::start, role::worker, 1, 84ms},
        {kind::kill, role::worker, 0, 378ms, 178ms},
        {kind::leave, role::worker, 1, 577ms}}},
      // Everybody was stopped for five seconds and went on: the parameter hosts were taken for lost.
      {R"({"seed": 10639, "policy": "backup:1", "workers": 2, "slots": 3, "shards": 3, "hosts": 2, )"
       R"("batches": 147, "delay": 33, "jitter": 1, "when_alone": 9223372036854775807, "records": true})",
       {{kind::start, role::worker, 0, 16ms},
        {kind::start, role::worker, 1, 16ms},
        {kind::start, role::host, 1, 59ms},
        {kind::start, role::host, 0, 63ms},
        {kind::freeze, role::all, 1, 6279ms, 5149ms}}},
      // A gradient that a checkpoint had kept beside a shard was judged by its parameter host before the
      // recorder was known there: the recording of the resumed run lacked its turn.
      {R"({"seed": 33, "policy": "k-async:2", "cure": "dc-asgd", "workers": 4, "slots": 4, "hosts": 1, )"
       R"("batches": 291, "delay": 38, "jitter": 40, "rejoin": 60000, "when_alone": 60000000000, )"
       R"("records": true, "keeps": true})",
       {{kind::slow_disk, role::server, 0, 51ms, 1266ms},
        {kind::start, role::worker, 3, 108ms},
        {kind::start, role::worker, 1, 604ms},
        {kind::start, role::worker, 2, 1003ms},
        {kind::start, role::worker, 0, 1224ms},
        {kind::start, role::host, 0, 1483ms},
        {kind::checkpoint, role::server, 0, 4305ms},
        {kind::crash, role::server, 1, 9700ms, 303ms}}},
      // A batch of which one shard had no gradient, since their worker was lost on the way, was closed by its
      // grace: the replay made no version of it.
      {R"({"seed": 415724341, "policy": "quorum:1,grace=0.1", "workers": 4, "slots": 6, "shards": 3, )"
       R"("batches": 49, "delay": 31, "jitter": 36, "truncate": 0.02, "rejoin": 60000, "records": true, )"
       R"("keeps": true})",
       {{kind::switches, role::server, 0, 805ms, 0ms, "quorum:1,grace=0.1"},
        {kind::start, role::worker, 1, 1059ms, 0ms, "number"},
        {kind::start, role::worker, 3, 1378ms, 0ms, "number"},
        {kind::start, role::worker, 0, 1478ms, 0ms, "number"},
        {kind::kill, role::server, 0, 1977ms, 213ms}}},
      // Under ssp two shards had made more versions than the third, which then judged a gradient that it had
      // missed by the version that the first shard had sent its worker, and discarded it.
      {R"({"seed": 415729477, "policy": "ssp:3", "workers": 4, "slots": 6, "shards": 3, "batches": 38, )"
       R"("delay": 4, "jitter": 1, "truncate": 0.02, "rejoin": 60000, "when_alone": 60000000000, )"
       R"("records": true, "keeps": true})",
       {{kind::start, role::worker, 1, 19ms, 0ms, "number"},
        {kind::start, role::worker, 0, 61ms, 0ms, "number"},
        {kind::start, role::worker, 2, 73ms, 0ms, "number"},
        {kind::start, role::worker, 3, 84ms, 0ms, "number"},
        {kind::switches, role::server, 0, 401ms, 0ms, "ringmaster:1"}}},
      // With a recording, a second worker that asked for a number was refused, and the run ended without
      // workers.
      {R"({"seed": 422, "policy": "ssp:3", "workers": 1, "slots": 2, "batches": 46, "delay": 14, )"
       R"("jitter": 12, "when_alone": 60000000000, "records": true})",
       {{kind::freeze, role::all, 1, 37ms, 2422ms},
        {kind::start, role::worker, 0, 96ms, 0ms, "number"},
        {kind::start, role::worker, 1, 1255ms, 0ms, "number"}}},
  };
  for (const told& one : all) {
    const played p = play(system_of(one.system), one.deeds);
    EXPECT_EQ(p.broken, "") << one.system;
    EXPECT_TRUE(p.begun) << p.ended;
  }
}

TEST(Systems, PlayTheSameStoryEachTime) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const system_spec s = drawn_system(seed);
    const story deeds = drawn_story(seed, s);
    const played once = play(s, deeds), again = play(s, deeds);
    EXPECT_EQ(once.trace, again.trace) << "story " << seed << as_json(s) << as_code(deeds);
    EXPECT_EQ(once.ended, again.ended) << "story " << seed;
  }
}

} // namespace
} // namespace mailgrad::systems
