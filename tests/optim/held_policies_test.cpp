#include <mailgrad/tests/optim/joined_policy.hpp>

#include <mailgrad/files/archive.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

// Policies under which a worker that waits goes on waiting until an update is made.

namespace mailgrad {
namespace {

using testing::joined;

class HeldPolicy : public ::testing::TestWithParam<const char*> {};

/// A shard asks such a policy for no other worker before an update is made, so nothing else may let one
/// start.
TEST_P(HeldPolicy, LetsNobodyElseStartBeforeAnUpdate) {
  constexpr std::uint32_t workers = 6;
  const auto p = joined(GetParam(), workers);
  ASSERT_TRUE(p->holds_until_update());
  std::mt19937_64 random(1);
  std::uint64_t version = 0;
  int updates = 0;
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const auto worker = static_cast<std::uint32_t>(random() % workers);
    if (random() % 8 == 0) p->leave({worker});
    if (random() % 8 == 0) p->join({worker});
    std::vector<bool> may;
    for (std::uint32_t r = 0; r < workers; ++r) may.push_back(p->may_start({r}));
    const gradient_stamp g{{worker},
                           i,
                           {version - std::min<std::uint64_t>(version, random() % 2)},
                           {version},
                           static_cast<std::int64_t>(i)};
    p->judge(g);
    if (p->batch_complete()) {
      p->batch_applied();
      ++version, ++updates;
      continue;
    }
    for (std::uint32_t r = 0; r < workers; ++r)
      ASSERT_TRUE(r == worker || p->may_start({r}) == may[r]) << "worker " << r << " at gradient " << i;
  }
  EXPECT_GT(updates, 100);
}

/// Whatever is under way: a worker that joins with the next batch does so in the run that goes on, too.
TEST_P(HeldPolicy, GoesOnFromACheckpointAsItWas) {
  constexpr std::uint32_t workers = 6;
  auto p = joined(GetParam(), workers), q = joined(GetParam(), workers);
  std::mt19937_64 random(2);
  std::uint64_t version = 0;
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const rank worker{static_cast<std::uint32_t>(random() % workers)};
    const bool leaves = random() % 8 == 0, joins = random() % 8 == 0, closes = random() % 20 == 0;
    const gradient_stamp g{worker, i, {version}, {version}, static_cast<std::int64_t>(i)};
    for (policy* each : {p.get(), q.get()}) {
      if (leaves) each->leave(worker);
      if (joins) each->join(worker);
      if (closes && each->closes_at()) each->close();
    }
    ASSERT_EQ(p->judge(g).what, q->judge(g).what) << i;
    ASSERT_EQ(p->batch_complete(), q->batch_complete()) << i;
    if (p->batch_complete()) {
      for (policy* each : {p.get(), q.get()}) each->batch_applied();
      ++version;
    }
    for (std::uint32_t r = 0; r < workers; ++r) ASSERT_EQ(p->may_start({r}), q->may_start({r})) << i;
    if (random() % 5 != 0) continue;
    saved_fields written;
    p->keep(written);
    saved_fields read(written.text(), written.arrays());
    q = joined(GetParam(), workers);
    q->keep(read);
  }
  EXPECT_GT(version, 100U);
}

INSTANTIATE_TEST_SUITE_P(All, HeldPolicy,
                         ::testing::Values("sync", "backup:2", "k-async:3", "quorum:3,grace=0.001"));

} // namespace
} // namespace mailgrad
