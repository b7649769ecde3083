#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/tall_tables.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <numeric>

namespace mailgrad {
namespace {

using testing::layout_of;
using testing::table_of_computed_rows;
using testing::table_that_is_read_twice;
using testing::tall_recommender;
using testing::tall_sparse_data;
using testing::tall_tastes;
using namespace ::testing;
namespace tables = testing::tables;

/// A flat vector whose every float is its own place.
std::vector<float> places(const parameter_layout& layout) {
  std::vector<float> values(layout.size());
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

void use_all(weight_addresses& addresses, const parameter_layout& layout, const std::vector<float>& flat) {
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    addresses.use(s, flat.data() + layout.shard(s).begin);
}

TEST(WeightAddresses, FindEveryVariableInOnePieceHoweverItIsCut) {
  for (const std::size_t shards : {1U, 2U, 3U, 5U, 8U}) {
    const parameter_layout layout =
        layout_of({{"w1", {9, 17}}, {"b1", {17}}, {"w2", {17, 5}}, {"table", {40, 3}, true}}, shards);
    ASSERT_EQ(layout.shard_count(), shards);
    const std::vector<float> flat = places(layout);
    weight_addresses addresses(layout);
    use_all(addresses, layout, flat);
    for (std::size_t v = 0; v < layout.variables().size(); ++v) {
      const placed_variable& variable = layout.variables()[v];
      EXPECT_THAT(std::span(addresses.of(v), variable.dims.size()),
                  ElementsAreArray(std::span(flat).subspan(variable.offset, variable.dims.size())))
          << variable.name;
      EXPECT_TRUE(shards > 1 || addresses.of(v) == flat.data() + variable.offset) << "no copy is made";
    }
  }
}

TEST(WeightAddresses, OfAJoinedVariableFollowANewSnapshotOfOneShardOnly) {
  const parameter_layout layout = layout_of({{"w", {6, 16}}}, 2);
  ASSERT_EQ(layout.pieces(0).size(), 2U) << "the cut runs through the variable";
  std::vector<float> flat = places(layout);
  weight_addresses addresses(layout);
  use_all(addresses, layout, flat);

  const float* const before = addresses.of(0);
  const variable_piece second = layout.pieces(0)[1];
  const std::vector<float> newer(layout.shard(1).size(), -1.0F);
  addresses.use(1, newer.data());
  for (std::size_t i = 0; i < 96; ++i)
    ASSERT_EQ(addresses.of(0)[i], i < second.offset_in_variable ? static_cast<float>(i) : -1.0F) << i;
  use_all(addresses, layout, std::vector<float>(layout.size(), 2.0F));
  EXPECT_EQ(addresses.of(0), before) << "a joined variable stays where it is";
  EXPECT_EQ(before[0], 2.0F);
}

class WeightReads : public ::testing::Test {
protected:
  void build(const model_function& model, const std::shared_ptr<const data_split>& data,
             std::size_t shards = 1, std::uint32_t workers = 1) {
    model_request request = request_for(*data, 8);
    request.workers = workers;
    layout_ = std::make_unique<parameter_layout>(lay_out(model, request, shards));
    code_ =
        std::make_unique<bound_model>(model, request, *layout_, [&](graph& g, const model_outputs& outputs) {
          return loss_and_gradients(g, outputs, *layout_, request).fetches;
        });
    reads_.emplace(code_->model(), code_->code(), code_->sources(), *layout_);
  }
  std::size_t variable(const std::string& name) const {
    const auto found = std::ranges::find(layout_->variables(), name, &placed_variable::name);
    return static_cast<std::size_t>(found - layout_->variables().begin());
  }
  std::vector<row_copy> copies(std::uint32_t shard = 0) const {
    std::vector<row_copy> all;
    reads_->list_copies(
        shard, from_.data(), to_, [this](const batch_part&) { return numbers_; }, all);
    return all;
  }

  std::unique_ptr<parameter_layout> layout_;
  std::unique_ptr<bound_model> code_;
  std::optional<weight_reads> reads_;
  std::vector<float> from_ = std::vector<float>(4), weights_ = std::vector<float>(4);
  float* to_ = weights_.data();
  const std::vector<std::int32_t> list_ = std::vector<std::int32_t>(64);
  const std::int32_t* numbers_ = list_.data();
};

TEST_F(WeightReads, AreRowsOfATableThatIsOnlyLookedUp) {
  build(find_model(tall_recommender), tall_tastes(500, 9));
  EXPECT_TRUE(reads_->by_rows(variable("category1/table")));
  EXPECT_TRUE(reads_->by_rows(variable("category2/table")));
  EXPECT_FALSE(reads_->by_rows(variable("top1/weight")));
  ASSERT_EQ(reads_->whole().size(), 1U);
  EXPECT_EQ(reads_->whole()[0].begin, 0U);
  EXPECT_EQ(reads_->whole()[0].end, layout_->dense_size());
  const std::vector<row_copy> all = copies();
  ASSERT_EQ(all.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all[i].count, 8U);
    EXPECT_EQ(all[i].stride, 2U);
    EXPECT_EQ(all[i].numbers, numbers_ + i);
    EXPECT_EQ(all[i].from - from_.data(), layout_->variables()[layout_->variables().size() - 2 + i].offset);
    EXPECT_EQ(all[i].to - to_, all[i].from - from_.data());
  }
  numbers_ = nullptr;
  EXPECT_THROW(copies(), graph_error) << "the numbers of a batch are needed";
}

TEST_F(WeightReads, AreAllRowsOfATableThatIsNoTallerThanItsLists) {
  build(find_model(tall_recommender), tall_tastes(500, 8));
  const std::vector<row_copy> all = copies();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].is_whole());
  EXPECT_TRUE(all[1].is_whole());
  EXPECT_EQ(all[1].height(), 8U);
  build(find_model("softmax"), tall_sparse_data(500));
  const std::vector<row_copy> columns = copies();
  ASSERT_EQ(columns.size(), 1U);
  EXPECT_EQ(columns[0].count, max_nonzeros(tall_sparse_data(500)->train, 8));
  EXPECT_EQ(columns[0].stride, 1U);
}

TEST_F(WeightReads, AreThoseOfEachReader) {
  build(table_that_is_read_twice(), tall_tastes(500, 9));
  const std::vector<row_copy> all = copies();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].count, 16U);
  EXPECT_EQ(all[1].count, 8U);
  EXPECT_EQ(all[0].to, all[1].to);
  build(table_that_is_read_twice(), tall_tastes(24, 9)); // as many as both lists name
  EXPECT_TRUE(copies()[0].is_whole());
  build(table_that_is_read_twice(), tall_tastes(25, 9));
  EXPECT_FALSE(copies()[0].is_whole());
}

TEST_F(WeightReads, AreWholeTablesWhoseRowsAnOperationNames) {
  build(table_of_computed_rows(), tall_tastes(500));
  const placed_variable& t = layout_->variables()[variable("t")];
  ASSERT_TRUE(t.sparse);
  EXPECT_FALSE(reads_->by_rows(variable("t")));
  ASSERT_EQ(reads_->whole().size(), 2U);
  EXPECT_EQ(reads_->whole()[1].begin, t.offset);
  EXPECT_EQ(reads_->whole()[1].end, t.offset + t.dims.size());
  EXPECT_TRUE(copies().empty());
}

/// Reads its operand whole, and gives it no gradient.
class whole_reader : public operation {
public:
  std::string_view name() const noexcept override { return "whole_reader"; }
  std::vector<value_type> infer(std::span<const value_type>) const override { return {{{}, dtype::float32}}; }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value>,
                                std::span<const std::optional<value>>) const override {
    return std::vector<adjoint>(inputs.size());
  }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    class nothing final : public executable {
      void run(const stream&, const call& c) override { *c.out() = 0; }
    };
    return std::make_unique<nothing>();
  }
};

/// Says wrongly which rows it reads.
class wrong_reader final : public whole_reader, public row_reader {
public:
  explicit wrong_reader(const rows_read& says) : says_(says) {}
  std::string_view name() const noexcept override { return "wrong_reader"; }
  std::optional<rows_read> rows_of(std::span<const value>, std::size_t table) const override {
    return table == 0 ? std::optional(says_) : std::nullopt;
  }

private:
  rows_read says_;
};

TEST_F(WeightReads, AreRefusedOfAnOperationThatCannotReadSo) {
  const auto refusal = [this](const rows_read& says) -> std::string {
    try {
      build(
          [&](graph& g, const model_request& request) {
            const value t = tables::table(g, "t", 500);
            const value named = tables::categories(g, request);
            const value more = g.apply_one(std::make_shared<wrong_reader>(says), {t, named},
                                           std::source_location::current());
            model_outputs made = tables::answers(g, gather(t, named), request);
            made.loss = add(made.loss, more);
            return made;
          },
          tall_tastes(500));
    } catch (const graph_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.operand = 1, .first = 15, .stride = 100}), "");
  EXPECT_EQ(refusal({.operand = 1, .stride = std::numeric_limits<std::size_t>::max()}), "");
  EXPECT_THAT(copies(), Contains(Field(&row_copy::count, 1U)));
  EXPECT_THAT(refusal({.operand = 1, .stride = 0}),
              HasSubstr("wrong_reader looks up rows with a stride of 0"));
  EXPECT_THAT(refusal({.operand = 0}), HasSubstr("by numbers that are float32 500x"));
  EXPECT_THAT(refusal({.operand = 2}), HasSubstr("by its operand 2, and has 2"));
  EXPECT_THAT(refusal({.operand = 1, .first = 16}),
              AllOf(HasSubstr("by number 16 of 16"), HasSubstr("bound_model_test.cpp:")));
}

/// Its gradient still comes in rows, since the other reader has none.
TEST_F(WeightReads, AreAWholeTableThatAnotherOperationReads) {
  build(
      [](graph& g, const model_request& request) {
        const value t = tables::table(g, "t", 500);
        const value more =
            g.apply_one(std::make_shared<whole_reader>(), {t}, std::source_location::current());
        model_outputs made = tables::answers(g, gather(t, tables::categories(g, request)), request);
        made.loss = add(made.loss, more);
        return made;
      },
      tall_tastes(500));
  ASSERT_TRUE(layout_->variables()[variable("t")].sparse);
  EXPECT_FALSE(reads_->by_rows(variable("t")));
}

/// Another worker's graph reads it.
TEST_F(WeightReads, AreNoneOfATableThatTheProgramLacks) {
  build(
      [](graph& g, const model_request& request) {
        const value t = tables::table(g, "t", 500), u = tables::table(g, "u", 400);
        const value named = tables::categories(g, request), unwanted = gather(u, named);
        return tables::answers(g, request.worker == 1 ? unwanted : gather(t, named), request);
      },
      tall_tastes(500), 1, 2);
  ASSERT_TRUE(layout_->variables()[variable("u")].sparse);
  EXPECT_EQ(copies().size(), 1U);
  EXPECT_FALSE(reads_->by_rows(variable("u")));
  for (const shard_range& r : reads_->whole()) EXPECT_LE(r.end, layout_->dense_size());
}

TEST_F(WeightReads, AreThePartsOfATableThatShardsHave) {
  build(find_model(tall_recommender), tall_tastes(500, 9), 3);
  std::int32_t next = 0;
  for (std::uint32_t s = 0; s < 3; ++s)
    for (const row_copy& c : copies(s)) {
      if (c.height() <= 9) continue;
      EXPECT_EQ(c.row_begin, next);
      next = c.row_end;
      EXPECT_EQ(c.numbers, numbers_);
    }
  EXPECT_EQ(next, 500);
}

} // namespace
} // namespace mailgrad
