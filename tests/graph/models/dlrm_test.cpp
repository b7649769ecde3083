#include <mailgrad/graph/models/dlrm.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

using test::expect_gradients, test::feeds, test::is_refused, test::names_of, test::random_tensor,
    test::tensor_of;
using testing::ElementsAre, testing::throws;

model_request ratings(std::size_t numbers) {
  return {.sample_dims = {numbers},
          .categories = {5, 3, 4},
          .wanted = answer::a_number,
          .classes = 0,
          .batch = 2};
}

/// Inputs of two samples, those of them that the graph has.
feeds two_samples(const graph& g, std::size_t numbers) {
  feeds fed;
  for (const value& v : g.inputs()) {
    const std::string& name = g.of(v).name;
    if (name == "categories") fed.emplace_back(v, tensor_of<std::int32_t>({2, 3}, {4, 0, 3, 1, 2, 3}));
    if (name == "features") fed.emplace_back(v, random_tensor({2, numbers}, 5));
    if (name == "labels" && v.type().type == dtype::float32) fed.emplace_back(v, tensor_of({2}, {0.5F, -1}));
    if (name == "labels" && v.type().type == dtype::int32)
      fed.emplace_back(v, tensor_of<std::int32_t>({2}, {1, 0}));
  }
  return fed;
}

using Dlrm = test::operation_test;

TEST_F(Dlrm, NamesItsTablesAndLayers) {
  const model_outputs y = build_dlrm(g, {.width = 2, .bottom = {6}, .top = {8, 4}}, ratings(3));
  EXPECT_THAT(names_of(g.inputs()), ElementsAre("categories", "features", "labels"));
  EXPECT_THAT(names_of(g.variables()),
              ElementsAre("category1/table", "category2/table", "category3/table", "bottom1/weights",
                          "bottom1/bias", "bottom2/weights", "bottom2/bias", "top1/weights", "top1/bias",
                          "top2/weights", "top2/bias", "top3/weights", "top3/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{5, 2}));
  EXPECT_EQ(g.variables()[7].dims(), (shape{2 + 6, 8})) << "the numbers' vector, and four vectors in pairs";
  EXPECT_EQ(y.logits.dims(), (shape{2, 1}));
}

TEST_F(Dlrm, ReadsSamplesWithoutNumbers) {
  build_dlrm(g, {.width = 2, .top = {}}, ratings(0));
  EXPECT_THAT(names_of(g.inputs()), ElementsAre("categories", "labels"));
  EXPECT_EQ(g.variables().at(3).dims(), (shape{3, 1}));
}

TEST_F(Dlrm, HasGradientsInRowsForItsTablesAlone) {
  const model_outputs y = build_dlrm(g, {.width = 2, .bottom = {}, .top = {3}}, ratings(1));
  const auto found = gradients(y.loss, g.variables());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sparse.size(), i < 3 ? 1U : 0U);
    EXPECT_EQ(found[i].dense.has_value(), i >= 3);
  }
}

TEST_F(Dlrm, HasTheGradientsOfItsFormula) {
  for (const interaction how : {interaction::dot, interaction::concat})
    for (const std::size_t numbers : {0U, 3U})
      for (const answer wanted : {answer::a_number, answer::a_class}) {
        graph fresh;
        model_request r = ratings(numbers);
        r.wanted = wanted;
        if (wanted == answer::a_class) r.classes = 2;
        const model_outputs y = build_dlrm(fresh, {.width = 2, .bottom = {3}, .top = {4}, .how = how}, r);
        // Small steps: on either side of a coordinate the same units of relu should be alive.
        expect_gradients(y.loss, fresh.variables(), two_samples(fresh, numbers),
                         {.epsilon = 1e-3F, .relative = 5e-3});
      }
}

TEST_F(Dlrm, RefusesSamplesWithoutCategories) {
  EXPECT_THAT([&] { build_dlrm(g, {}, {.sample_dims = {4}}); },
              is_refused("the samples of this data set have none"));
}

TEST_F(Dlrm, IsBuiltInWithItsSettings) {
  find_model("dlrm:width=4,bottom=,top=7,interaction=concat")(g, ratings(2));
  EXPECT_EQ(g.variables()[0].dims(), (shape{5, 4}));
  EXPECT_THAT(names_of(g.variables()), testing::Contains("top1/weights"));
  EXPECT_EQ(g.variables()[5].dims(), (shape{16, 7})) << "four vectors of four";
  EXPECT_THAT([] { find_model("dlrm:widht=4"); }, throws<std::invalid_argument>("'width'"));
  EXPECT_THROW(find_model("dlrm:width=0"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
