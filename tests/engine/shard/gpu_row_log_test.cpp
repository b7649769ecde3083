#include <mailgrad/files/archive.hpp>
#include <mailgrad/tests/engine/shard/gpu_row_log_fixture.hpp>

#include <gmock/gmock.h>

#include <functional>

// How a block of a shard on a GPU catches up with the latest tables. One source for two GPUs: the simulated
// one, and a real one.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using testing::random_values;

/// As many floats as a table must have for its lists to be kept.
constexpr std::size_t many = 1 << 20;

class GpuRowLog : public testing::gpu_row_log_test {};
class GpuRowLogOfAShard : public testing::gpu_row_log_of_a_shard {};

TEST_F(GpuRowLog, ListsWhatWasWrittenSinceAVersion) {
  gpu_row_log log(queue_);
  std::vector<float> first(height * 2), latest(height * 2);
  for (std::size_t i = 0; i < latest.size(); ++i) latest[i] = static_cast<float>(i + 1);
  const float* const from = floats(latest);
  const std::vector<std::int32_t> list{7, 7, -1, 299, 300};
  note(log, 1, 0, many, {list, {3}});
  note(log, 2, 0, many, {{8}, {}});
  const auto caught_up = [&](std::uint64_t version) {
    float* const to = floats(first);
    const row_copy whole{from, to, 2, 0, height};
    std::vector<row_copy> copies;
    EXPECT_TRUE(log.catch_up(version, {&whole, 1}, copies));
    copy_rows(queue_->where(), copies);
    std::vector<std::size_t> rows;
    const std::vector<float> found = read(to, first.size());
    for (std::size_t i = 0; i < height; ++i)
      if (found[2 * i] != 0) rows.push_back(i);
    return rows;
  };
  EXPECT_THAT(caught_up(0), ElementsAre(3, 7, 8, 299));
  EXPECT_THAT(caught_up(1), ElementsAre(8));
  EXPECT_THAT(caught_up(2), ElementsAre());
}

TEST_F(GpuRowLog, KnowsHowFarItReachesBack) {
  gpu_row_log log(queue_);
  const row_copy whole{nullptr, nullptr, 4, 0, height};
  std::vector<row_copy> copies;
  const auto reaches = [&](std::uint64_t version) { return log.catch_up(version, {&whole, 1}, copies); };
  note(log, 5, 0, height * 4, {{1}});
  EXPECT_TRUE(reaches(4));
  EXPECT_FALSE(reaches(3));
  EXPECT_FALSE(reaches(6)) << "a version to come";
  note(log, 6, 0, height * 4, {{1}});
  note(log, 7, 0, height * 4, {{1}});
  EXPECT_TRUE(reaches(5));
  note(log, 9, 0, height * 4, {{1}});
  EXPECT_FALSE(reaches(7)) << "there is a gap";
  for (std::uint64_t version = 10; version < 10 + 2 * gpu_row_log::depth; ++version)
    note(log, version, 0, height * 4, {{1}});
  const std::uint64_t last = 9 + 2 * gpu_row_log::depth;
  EXPECT_TRUE(reaches(last - gpu_row_log::depth));
  EXPECT_FALSE(reaches(last - gpu_row_log::depth - 1));
}

TEST_F(GpuRowLog, KeepsNoListsThatWouldTakeMoreThanTheTable) {
  gpu_row_log log(queue_);
  const row_copy whole{nullptr, nullptr, 4, 0, height};
  const std::size_t most = height * 4 / (4 * gpu_row_log::depth);
  for (const std::size_t named : {most, most + 1}) {
    note(log, 1, 0, height * 4, {std::vector<std::int32_t>(named - 1, 3), {4}});
    std::vector<row_copy> copies;
    EXPECT_TRUE(log.catch_up(0, {&whole, 1}, copies));
    ASSERT_EQ(copies.size(), named == most ? 2U : 1U);
    EXPECT_EQ(copies[0].is_whole(), named > most);
  }
}

/// A block that is far behind would copy some rows many times.
TEST_F(GpuRowLog, CopiesATableWholeIfItsListsAreAsLong) {
  gpu_row_log log(queue_);
  const row_copy tables[]{{nullptr, nullptr, 64, 10, 16}, {nullptr, nullptr, 4, 0, height}};
  for (std::uint64_t version = 1; version <= 3; ++version) {
    const std::vector<row_gradient> lists{{numbers({1, 2}), nullptr}};
    log.begin(version);
    log.note(0, many, lists);
    log.note(1, many, lists);
    log.end();
  }
  for (const auto& [version, expected] : {std::pair{1U, 2U + 2U}, {0U, 1U + 3U}}) {
    std::vector<row_copy> copies;
    EXPECT_TRUE(log.catch_up(version, tables, copies));
    EXPECT_EQ(copies.size(), expected);
    EXPECT_EQ(copies.front().is_whole(), version == 0);
    EXPECT_EQ(copies.front().row_begin, 10);
    EXPECT_FALSE(copies.back().is_whole());
  }
}

TEST_F(GpuRowLogOfAShard, BringsABlockToTheLatestTables) {
  for (const std::size_t shards : {1U, 3U})
    for (std::uint32_t s = 0; s < shards; ++s)
      for (const std::size_t behind : {1U, 2U, 63U, 64U, 65U}) {
        if (shards > 1 && behind > 2) continue;
        begin_with_two_blocks(shards, s);
        snapshot first = shard_->snapshot();
        for (std::size_t i = 0; i < behind; ++i) update();
        first = {};
        const snapshot second = shard_->snapshot();
        const std::vector<float> before = read_snapshot(second);
        update();
        expect_same(std::to_string(behind) + " updates behind, shard " + std::to_string(s));
        EXPECT_EQ(read_snapshot(second), before);
      }
}

TEST_F(GpuRowLogOfAShard, BringsBlocksThatWorkersHoldForSomeTime) {
  std::mt19937_64 random(1);
  std::vector<snapshot> held(3);
  for (int i = 0; i < 150; ++i) {
    if (random() % 2 == 0) held[random() % held.size()] = shard_->snapshot();
    if (random() % 3 == 0) held[random() % held.size()] = {};
    update(i % 10 == 9 ? 400 : 6); // of which the log keeps no lists
    expect_same(std::to_string(i));
  }
}

/// Each of these changes a block of the shard otherwise than by an update.
TEST_F(GpuRowLogOfAShard, ForgetsABlockThatGetsOtherWeights) {
  const std::vector<float> others = random_values(layout_->size(), 9);
  const std::vector<std::function<void()>> changes{
      [&] {
        const auto values = std::make_shared<memory>(block(others.size() * sizeof(float)));
        std::ranges::copy(others, values->on_host<float>().begin());
        shard_->reachable(snapshot(values));
        queue_->finish();
      },
      [&] {
        gpu_block block(1, 1);
        for (shard* s : {&*shard_, &*in_place_}) {
          s->save(block);
          queue_->write(others, *block.of(0).values);
          s->load(block, 0);
        }
        queue_->finish();
      },
      [&] {
        saved_fields written[2];
        shard_->keep(written[0]);
        in_place_->keep(written[1]);
        for (int k = 0; k < 2; ++k) update_elsewhere();
        for (auto* const w : {&written[0], &written[1]}) {
          saved_fields reading(w->text(), w->arrays());
          (w == &written[0] ? shard_ : in_place_)->keep(reading); // the weights of before
        }
        queue_->finish();
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    begin_with_two_blocks(1);
    changes[i]();
    for (int k = 0; k < 4; ++k) {
      update_elsewhere();
      expect_same("change " + std::to_string(i));
    }
  }
}

} // namespace
} // namespace mailgrad
