#include <mailgrad/tests/engine/worker/gpu_rows_fixture.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

// A step copies the rows of tables that its batch names. One source for two GPUs: the simulated one, and a
// real one.

namespace mailgrad {
namespace {

using testing::tall_recommender;
using testing::tall_sparse_data;
using testing::tall_tastes;

struct rows_case {
  const char* name;
  weight_place where;
  std::size_t shards;
};

class GpuRows : public testing::gpu_rows_test, public ::testing::WithParamInterface<rows_case> {
protected:
  void build_rows(const model_function& model, const std::shared_ptr<const data_split>& data) {
    build_with(model, data, GetParam().shards, GetParam().where);
  }
  result step_that_foresees(const std::shared_ptr<const batch>& b, const std::shared_ptr<const batch>& next) {
    const auto g = on_gpu_->make_gradient();
    gradients_.push_back(g);
    on_gpu_->begin_step(b, g);
    on_gpu_->foresee(next, {});
    await_end();
    return result_on_gpu(on_gpu_->end_step(), *g);
  }
  void expect_same_steps(bool poison = true) {
    for (const auto& [first, count] :
         {std::pair{0U, 8U}, {8U, 8U}, {16U, 3U}, {0U, 8U}, {24U, 8U}, {3U, 3U}, {32U, 8U}, {8U, 8U}})
      expect_same_step(samples(first, count, steps_), poison);
  }
};

TEST_P(GpuRows, AreReadAsTheHostReadsThemAndNoOthers) {
  build_rows(find_model(tall_recommender), tall_tastes(500));
  expect_same_steps();
}

/// Batches lie in several sets of inputs in turn, so their numbers do, too.
TEST_P(GpuRows, AreThoseOfABatchThatWasForeseen) {
  build_rows(find_model(tall_recommender), tall_tastes(500));
  std::shared_ptr<batch> next = samples(0, 8);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const auto b = std::exchange(next, samples(8 * i + 8, 8, i + 1));
    give_next(*b);
    const result expected = host_step(b);
    expect_close(step_that_foresees(b, next), expected);
  }
}

TEST_P(GpuRows, AreThoseOfEachStepUnderWay) {
  build_rows(find_model(tall_recommender), tall_tastes(500));
  std::vector<std::pair<std::shared_ptr<gradient>, result>> begun;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const auto b = samples(8 * i, 8, i);
    give_next(*b);
    begun.emplace_back(on_gpu_->make_gradient(), host_step(b));
    on_gpu_->begin_step(b, begun.back().first);
    if (begun.size() < on_gpu_->most_under_way()) continue;
    for (const auto& [g, expected] : begun) {
      if (watch_->watched() > 0) await_end();
      expect_close(result_on_gpu(on_gpu_->end_step(), *g), expected);
      gradients_.push_back(g);
    }
    begun.clear();
  }
}

TEST_P(GpuRows, OfSparseSamplesEndBeforeTheLastPlace) {
  build_rows(find_model("softmax"), tall_sparse_data(500));
  expect_same_steps();
}

TEST_P(GpuRows, OfATableThatIsReadTwiceAreThoseOfBothReaders) {
  every_row_of_first_ = true;
  build_rows(testing::table_that_is_read_twice(), tall_tastes(500));
  expect_same_steps();
}

TEST_P(GpuRows, ThatAnOperationNamesAreAllThere) {
  build_rows(testing::table_of_computed_rows(), tall_tastes(500));
  expect_same_steps(false);
}

TEST_P(GpuRows, OfALowTableAreCopiedWhole) {
  build_rows(find_model(tall_recommender), tall_tastes(8)); // as high as a batch is long
  expect_same_steps(false);
  build_rows(find_model(tall_recommender), tall_tastes(9));
  expect_same_steps();
}

TEST_P(GpuRows, ThatATableLacksAreRefusedInTheWordsOfTheHost) {
  build_rows(find_model(tall_recommender), tall_tastes(500));
  for (const std::int32_t row : {500, -1, 1 << 30}) {
    const auto bad = samples(0, 8), good = samples(8, 8);
    bad->categories.values<std::int32_t>()[6] = row;
    give_next(*bad);
    expect_refused_as_by_host(bad);
    expect_same_step(good);
  }
}

TEST_P(GpuRows, MayAllBeTheSameOne) {
  build_rows(find_model(tall_recommender), tall_tastes(500));
  const auto b = samples(0, 8);
  for (std::size_t i = 0; i < 16; i += 2) b->categories.values<std::int32_t>()[i] = 499;
  expect_same_step(b);
}

INSTANTIATE_TEST_SUITE_P(Of, GpuRows,
                         ::testing::Values(rows_case{"one shard there", weight_place::same_gpu, 1},
                                           rows_case{"three shards there", weight_place::same_gpu, 3},
                                           rows_case{"one shard on the host", weight_place::host, 1},
                                           rows_case{"three shards on the host", weight_place::host, 3}),
                         [](const auto& c) { return testing::test_name(c.param.name); });

} // namespace
} // namespace mailgrad
