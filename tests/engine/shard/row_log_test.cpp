#include <mailgrad/engine/shard/row_log.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

/// What becomes of zeros that catch up from `version` with 1, 2, 3, ...
std::vector<float> caught_up(const row_log& log, std::uint64_t version, bool known = true) {
  const std::vector<float> from{1, 2, 3, 4, 5, 6};
  std::vector<float> to(6);
  EXPECT_EQ(log.catch_up(version, from, to), known);
  return to;
}

TEST(RowLog, CopiesWhatWasWrittenSinceAVersion) {
  row_log log;
  log.begin(1);
  log.note(0, 2);
  log.begin(2);
  log.note(4, 1);
  EXPECT_THAT(caught_up(log, 0), ElementsAre(1, 2, 0, 0, 5, 0));
  EXPECT_THAT(caught_up(log, 1), ElementsAre(0, 0, 0, 0, 5, 0));
  EXPECT_THAT(caught_up(log, 2), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(RowLog, CopiesNothingForAVersionBeforeAGapOrToCome) {
  row_log log;
  log.begin(1);
  log.begin(2);
  log.begin(5);
  caught_up(log, 1, false);
  log.note(0, 6);
  EXPECT_THAT(caught_up(log, 3, false), ElementsAre(0, 0, 0, 0, 0, 0));
  caught_up(log, 6, false);
  EXPECT_THAT(caught_up(log, 4), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(RowLog, RemembersAsManyUpdatesAsItsDepth) {
  row_log log;
  for (std::uint64_t version = 1; version <= 3 * row_log::depth; ++version) {
    log.begin(version);
    log.note(version % 6, 1);
  }
  const std::uint64_t last = 3 * row_log::depth;
  caught_up(log, last - row_log::depth - 1, false);
  caught_up(log, last - row_log::depth);
  std::vector<float> expected(6);
  expected[last % 6] = static_cast<float>(last % 6 + 1);
  EXPECT_EQ(caught_up(log, last - 1), expected);
}

} // namespace
} // namespace mailgrad
