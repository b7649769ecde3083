#include <mailgrad/graph/models/dlrm.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::feeds;
using test::random_tensor;
using test::tensor_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

model_request ratings(std::size_t numbers) {
  return {.sample_dims = {numbers},
          .categories = {5, 3, 4},
          .wanted = answer::a_number,
          .classes = 0,
          .batch = 2};
}

std::vector<std::string> names(const std::vector<value>& values) {
  std::vector<std::string> found;
  for (const value& v : values) found.push_back(v.owner().of(v).name);
  return found;
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

TEST(Dlrm, NamesItsTablesAndLayers) {
  graph g;
  const model_outputs y = build_dlrm(g, {.width = 2, .bottom = {6}, .top = {8, 4}}, ratings(3));
  EXPECT_THAT(names(g.inputs()), ElementsAre("categories", "features", "labels"));
  EXPECT_THAT(names(g.variables()),
              ElementsAre("category1/table", "category2/table", "category3/table", "bottom1/weights",
                          "bottom1/bias", "bottom2/weights", "bottom2/bias", "top1/weights", "top1/bias",
                          "top2/weights", "top2/bias", "top3/weights", "top3/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{5, 2}));
  EXPECT_EQ(g.variables()[7].dims(), (shape{2 + 6, 8})) << "the numbers' vector, and four vectors in pairs";
  EXPECT_EQ(y.logits.dims(), (shape{2, 1}));
}

TEST(Dlrm, ReadsSamplesWithoutNumbers) {
  graph g;
  build_dlrm(g, {.width = 2, .top = {}}, ratings(0));
  EXPECT_THAT(names(g.inputs()), ElementsAre("categories", "labels"));
  EXPECT_EQ(g.variables().at(3).dims(), (shape{3, 1}));
}

TEST(Dlrm, HasGradientsInRowsForItsTablesAlone) {
  graph g;
  const model_outputs y = build_dlrm(g, {.width = 2, .bottom = {}, .top = {3}}, ratings(1));
  const auto found = gradients(y.loss, g.variables());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sparse.size(), i < 3 ? 1U : 0U);
    EXPECT_EQ(found[i].dense.has_value(), i >= 3);
  }
}

TEST(Dlrm, HasTheGradientsOfItsFormula) {
  for (const interaction how : {interaction::dot, interaction::concat})
    for (const std::size_t numbers : {0U, 3U})
      for (const answer wanted : {answer::a_number, answer::a_class}) {
        graph g;
        model_request r = ratings(numbers);
        r.wanted = wanted;
        if (wanted == answer::a_class) r.classes = 2;
        const model_outputs y = build_dlrm(g, {.width = 2, .bottom = {3}, .top = {4}, .how = how}, r);
        // Small steps: on either side of a coordinate the same units of relu should be alive.
        expect_gradients(y.loss, g.variables(), two_samples(g, numbers),
                         {.epsilon = 1e-3F, .relative = 5e-3});
      }
}

TEST(Dlrm, RefusesSamplesWithoutCategories) {
  graph g;
  EXPECT_THAT([&] { build_dlrm(g, {}, {.sample_dims = {4}}); },
              ThrowsMessage<graph_error>(HasSubstr("the samples of this data set have none")));
}

TEST(Dlrm, IsBuiltInWithItsSettings) {
  graph g;
  find_model("dlrm:width=4,bottom=,top=7,interaction=concat")(g, ratings(2));
  EXPECT_EQ(g.variables()[0].dims(), (shape{5, 4}));
  EXPECT_THAT(names(g.variables()), testing::Contains("top1/weights"));
  EXPECT_EQ(g.variables()[5].dims(), (shape{16, 7})) << "four vectors of four";
  EXPECT_THAT([] { find_model("dlrm:widht=4"); }, ThrowsMessage<std::invalid_argument>(HasSubstr("'width'")));
  EXPECT_THROW(find_model("dlrm:width=0"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
