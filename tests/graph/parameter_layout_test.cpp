#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <random>

namespace mailgrad {
namespace {

using testing::ThrowsMessage, testing::throws;

struct wanted {
  std::string name;
  shape dims;
  bool sparse = false;
};

parameter_layout layout_of(const std::vector<wanted>& variables, std::size_t shards,
                           shard_cuts where = shard_cuts::within_variables) {
  graph g;
  std::vector<bool> sparse;
  for (const wanted& w : variables) {
    g.variable(w.name, w.dims, initialiser::uniform(1, 2));
    sparse.push_back(w.sparse);
  }
  return {g, sparse, shards, where};
}

const std::vector<wanted> mlp{{"a/weights", {784, 512}}, {"a/bias", {512}},        {"b/weights", {512, 256}},
                              {"b/bias", {256}},         {"c/weights", {256, 10}}, {"c/bias", {10}}};

TEST(ParameterLayout, BeginsEachVariableOnACacheLine) {
  const parameter_layout l = layout_of({{"a", {3}}, {"b", {17}}, {"c", {}}}, 1);
  EXPECT_EQ(l.variables()[0].offset, 0U);
  EXPECT_EQ(l.variables()[1].offset, 16U);
  EXPECT_EQ(l.variables()[2].offset, 48U);
  EXPECT_EQ(l.size(), 64U);
  EXPECT_EQ(l.weight_count(), 21U);
}

TEST(ParameterLayout, PutsTablesBehindDenseVariables) {
  const parameter_layout l = layout_of({{"table", {5, 2}, true}, {"bias", {2}}}, 1);
  EXPECT_EQ(l.variables()[0].name, "bias");
  EXPECT_EQ(l.variables()[1].name, "table");
  EXPECT_EQ(l.dense_size(), 16U);
  EXPECT_EQ(l.variables()[1].offset, 16U);
  EXPECT_EQ(l.size(), 32U);
}

TEST(ParameterLayout, CutsALargeVariableIntoSlices) {
  const parameter_layout l = layout_of(mlp, 2);
  const auto pieces = l.pieces(0);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].length, l.shard(0).size());
  EXPECT_EQ(pieces[1].offset_in_variable, pieces[0].length);
  EXPECT_EQ(pieces[1].offset_in_shard, 0U);
  EXPECT_EQ(l.pieces(1).size(), 1U);
}

TEST(ParameterLayout, SaysTheBalanceInWords) {
  EXPECT_EQ(layout_of(mlp, 2).format_balance(),
            "535818 weights in 2 shards: 267904 (50.0 %), 267914 (50.0 %)");
  EXPECT_EQ(layout_of({{"a", {3}}}, 1).format_balance(), "3 weights in 1 shard: 3 (100.0 %)");
}

TEST(ParameterLayout, SaysOfManyShardsTheLeastAndTheLargest) {
  EXPECT_EQ(layout_of({{"a", {16 * 490}}, {"b", {3}}}, 491).format_balance(),
            "7843 weights in 491 shards of 3 (0.0 %) to 16 (0.2 %)");
}

TEST(ParameterLayout, LeavesVariablesWholeIfARuleLooksAtThem) {
  for (std::size_t shards = 1; shards <= mlp.size(); ++shards) {
    const parameter_layout l = layout_of(mlp, shards, shard_cuts::between_variables);
    EXPECT_EQ(l.shard_count(), shards);
    EXPECT_EQ(l.shard(0).begin, 0U);
    EXPECT_EQ(l.shard(shards - 1).end, l.size());
    for (std::size_t s = 0; s < shards; ++s) EXPECT_GT(l.shard(s).size(), 0U) << s << " of " << shards;
    for (std::size_t v = 0; v < mlp.size(); ++v) EXPECT_EQ(l.pieces(v).size(), 1U) << mlp[v].name;
  }
}

TEST(ParameterLayout, MakesTheLargestShardOfWholeVariablesAsSmallAsItCanBe) {
  const std::vector<wanted> uneven{{"a", {16}}, {"b", {32}}, {"c", {16}}, {"d", {48}}, {"e", {16}}};
  const auto largest = [&](std::size_t shards) {
    const parameter_layout l = layout_of(uneven, shards, shard_cuts::between_variables);
    std::size_t most = 0;
    for (std::size_t s = 0; s < shards; ++s) most = std::max(most, l.shard(s).size());
    return most;
  };
  EXPECT_EQ(largest(1), 128U);
  EXPECT_EQ(largest(2), 64U); // a b c, d e
  EXPECT_EQ(largest(3), 64U); // a, b c, d e
  EXPECT_EQ(largest(4), 48U);
}

TEST(ParameterLayout, RefusesMoreShardsOfWholeVariablesThanThereAreVariables) {
  EXPECT_THAT([] { layout_of(mlp, 7, shard_cuts::between_variables); },
              ThrowsMessage<std::invalid_argument>("7 shards cannot be cut between the variables of a model "
                                                   "of 6; it has room for 1 to 6"));
}

TEST(ParameterLayout, SaysTheBytesOfShardsOfWholeVariables) {
  EXPECT_EQ(layout_of(mlp, 2, shard_cuts::between_variables).format_balance(),
            "535818 weights in 2 shards of whole variables: 401408 (1.5 MiB, 74.9 %), 134410 (525.0 KiB, "
            "25.1 %); the largest has 74.9 %");
  std::vector<wanted> nine{{"long", {48}}};
  for (std::size_t i = 0; i < 8; ++i) nine.push_back({std::to_string(i), {16}});
  EXPECT_EQ(layout_of(nine, 9, shard_cuts::between_variables).format_balance(),
            "176 weights in 9 shards of whole variables: 16 (64 bytes, 9.1 %) to 48 (192 bytes, 27.3 %)");
}

TEST(ParameterLayout, CutsATableBetweenRowsOnly) {
  for (const std::size_t width : {1U, 2U, 3U, 10U, 16U, 20U}) {
    const parameter_layout l = layout_of({{"bias", {7}}, {"table", {1000, width}, true}}, 3);
    for (const variable_piece& p : l.pieces(1)) {
      EXPECT_EQ(p.offset_in_variable % width, 0U) << width;
      EXPECT_EQ(p.length % width, 0U) << width;
    }
  }
}

TEST(ParameterLayout, CutsAsOftenAsThereAreLines) {
  const std::vector<wanted> variables{{"a", {40}}, {"b", {1}}, {"c", {5}}};
  const parameter_layout l = layout_of(variables, 5);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(l.shard(i).size(), 16U);
  EXPECT_THAT([&] { layout_of(variables, 6); },
              throws<std::invalid_argument>(
                  "6 shards cannot be cut from a model of 46 weights; it has room for 1 to 5"));
  EXPECT_THROW(layout_of(variables, 0), std::invalid_argument);
}

TEST(ParameterLayout, RefusesAModelWithoutWeights) {
  EXPECT_THROW(layout_of({}, 1), std::invalid_argument);
  const std::vector<wanted> empty{{"a", {2}}, {"b", {3, 0}}};
  EXPECT_THAT([&] { layout_of(empty, 1); },
              throws<std::invalid_argument>("variable 'b' of shape 3x0 holds no weights"));
}

TEST(ParameterLayout, ComparesNamesShapesAndCuts) {
  EXPECT_EQ(layout_of(mlp, 2), layout_of(mlp, 2));
  EXPECT_NE(layout_of(mlp, 2), layout_of(mlp, 3));
  EXPECT_NE(layout_of({{"a", {3}}}, 1), layout_of({{"b", {3}}}, 1));
  EXPECT_NE(layout_of({{"a", {3}}}, 1), layout_of({{"a", {4}}}, 1));
  EXPECT_NE(layout_of({{"a", {3, 2}}}, 1), layout_of({{"a", {3, 2}, true}}, 1));
}

TEST(ParameterLayout, InitialisesEachShardWithItsPartOfTheWhole) {
  const std::vector<wanted> variables{{"a", {37}}, {"table", {9, 5}, true}, {"b", {20}}};
  const parameter_layout whole = layout_of(variables, 1);
  std::vector<float> expected(whole.size(), -1);
  whole.initialise_shard(0, 3, expected);
  EXPECT_EQ(expected[37], 0) << "a gap";
  EXPECT_GE(expected[36], 1) << "a weight";

  const parameter_layout cut = layout_of(variables, 3);
  std::vector<float> joined;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<float> part(cut.shard(i).size(), -1);
    cut.initialise_shard(i, 3, part);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, expected);
}

/// Variables and shards by chance, from a seed.
class ParameterLayoutProperties : public testing::TestWithParam<unsigned> {
protected:
  void SetUp() override {
    std::mt19937 draw(GetParam());
    const auto below = [&](std::size_t n) { return draw() % n; };
    std::vector<wanted> variables;
    for (std::size_t i = 0, n = 1 + below(9); i < n; ++i) {
      const bool table = below(3) == 0;
      const shape dims =
          table || below(2) == 0 ? shape{1 + below(200), 1 + below(70)} : shape{1 + below(900)};
      variables.push_back({std::to_string(i), dims, table});
    }
    try {
      layout = layout_of(variables, 1 + below(8));
    } catch (const std::invalid_argument&) {
      layout = layout_of(variables, 1);
    }
  }

  std::optional<parameter_layout> layout;
};

TEST_P(ParameterLayoutProperties, CoverEachFloatOnce) {
  std::vector<int> covered(layout->size(), 0);
  std::size_t end = 0;
  for (std::size_t i = 0; i < layout->shard_count(); ++i) {
    EXPECT_EQ(layout->shard(i).begin, end);
    EXPECT_LT(layout->shard(i).begin, layout->shard(i).end);
    end = layout->shard(i).end;
  }
  EXPECT_EQ(end, layout->size());
  for (std::size_t v = 0; v < layout->variables().size(); ++v) {
    std::size_t next = 0;
    for (const variable_piece& p : layout->pieces(v)) {
      EXPECT_EQ(p.offset_in_variable, next);
      next += p.length;
      const std::size_t begin = layout->shard(p.shard).begin + p.offset_in_shard;
      EXPECT_EQ(begin, layout->variables()[v].offset + p.offset_in_variable);
      EXPECT_LE(begin + p.length, layout->shard(p.shard).end);
      for (std::size_t i = 0; i < p.length; ++i) ++covered[begin + i];
    }
    EXPECT_EQ(next, layout->variables()[v].dims.size());
  }
  EXPECT_LE(*std::ranges::max_element(covered), 1);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(covered, 1)), layout->weight_count());
}

TEST_P(ParameterLayoutProperties, KeepEachPieceAligned) {
  for (std::size_t v = 0; v < layout->variables().size(); ++v) {
    const placed_variable& placed = layout->variables()[v];
    EXPECT_EQ(placed.offset % 16, 0U);
    EXPECT_EQ(placed.sparse, placed.offset >= layout->dense_size());
    for (const variable_piece& p : layout->pieces(v)) {
      EXPECT_EQ(p.offset_in_shard % 16, 0U);
      if (placed.sparse) {
        EXPECT_EQ(p.offset_in_variable % (placed.dims.size() / placed.dims[0]), 0U);
      }
    }
  }
}

TEST_P(ParameterLayoutProperties, BalanceTheShardsUpToOneGrain) {
  std::size_t grain = 16;
  for (const placed_variable& v : layout->variables())
    if (v.sparse) grain = std::max(grain, 16 * (v.dims.size() / v.dims[0]));
  const std::size_t share = layout->size() / layout->shard_count();
  for (std::size_t i = 0; i < layout->shard_count(); ++i) {
    EXPECT_LE(layout->shard(i).size(), share + grain + 16);
    EXPECT_GE(layout->shard(i).size() + grain + 16, share);
  }
}

TEST_P(ParameterLayoutProperties, CountTheWeightsOfEachShard) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < layout->shard_count(); ++i) sum += layout->weight_count(i);
  EXPECT_EQ(sum, layout->weight_count());
}

INSTANTIATE_TEST_SUITE_P(Seeds, ParameterLayoutProperties, testing::Range(0U, 100U));

} // namespace
} // namespace mailgrad
