#include <mailgrad/graph/models/model.hpp>

#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace mailgrad {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const model_request fashion{.sample_dims = {28, 28, 1}, .classes = 10, .batch = 64};

std::size_t weights_of(std::string_view model, const model_request& request = fashion) {
  graph g;
  find_model(model)(g, request);
  std::size_t sum = 0;
  for (const value& v : g.variables()) sum += v.dims().size();
  return sum;
}

template <class Matcher>
void expect_refused(std::string_view model, Matcher why) {
  EXPECT_THAT([&] { find_model(model); }, ThrowsMessage<std::invalid_argument>(why));
}

TEST(FindModel, KnowsTheBuiltInOnes) {
  EXPECT_EQ(weights_of("softmax"), 784U * 10 + 10);
  EXPECT_EQ(weights_of("mlp"), 784U * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(weights_of("lenet"), 25U * 32 + 32 + 25 * 32 * 64 + 64 + 7 * 7 * 64 * 512 + 512 + 512 * 10 + 10);
}

TEST(FindModel, ListsTheBuiltInOnes) {
  for (const std::string_view name : built_in_models()) EXPECT_TRUE(built_in_model(name)) << name;
  EXPECT_FALSE(built_in_model("no such model"));
}

TEST(FindModel, ReadsTheSettingsOfTheMlp) {
  EXPECT_EQ(weights_of("mlp:hidden=20"), 784U * 20 + 20 + 20 * 10 + 10);
  EXPECT_EQ(weights_of("mlp:hidden=5x6x7"), 784U * 5 + 5 + 5 * 6 + 6 + 6 * 7 + 7 + 7 * 10 + 10);
  settings s("model", "mlp:hidden=9,activation=tanh,dropout=0.25");
  const layer_stack layers = mlp_layers(s);
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(std::get<dense_layer>(layers[0]).units, 9U);
  EXPECT_EQ(std::get<dense_layer>(layers[0]).how, activation::tanh);
  EXPECT_EQ(std::get<dropout_layer>(layers[1]).rate, 0.25F);
}

TEST(FindModel, SaysWhichSettingIsWrong) {
  expect_refused("mlp:hiden=20", AllOf(HasSubstr("model 'mlp:hiden=20': there is no setting 'hiden'"),
                                       HasSubstr("did you mean 'hidden'?")));
  expect_refused("mlp:hidden=20xtwo", HasSubstr("widths such as 512x256, not '20xtwo'"));
  expect_refused("mlp:hidden=0", HasSubstr("not '0'"));
  expect_refused("mlp:hidden=99999999999", HasSubstr("not '99999999999'"));
  expect_refused("mlp:activation=rely", HasSubstr("did you mean 'relu'?"));
  expect_refused("mlp:dropout=1", HasSubstr("at least 0 and less than 1, not '1'"));
  expect_refused("mlp:dropout=nan", HasSubstr("not 'nan'"));
  expect_refused("lenet:filters=3", HasSubstr("'lenet' has no settings"));
}

TEST(FindModel, NamesTheNearestModel) {
  expect_refused("lennet", AllOf(HasSubstr("model 'lennet' is neither built in nor a file"),
                                 HasSubstr("did you mean 'lenet'?")));
  expect_refused("", HasSubstr("known are: "));
  expect_refused("transformer", HasSubstr("known are: "));
}

TEST(FindModel, ReadsAFileOfLayers) {
  const auto file = std::filesystem::path(testing::TempDir()) / "mailgrad_find_model.json";
  std::ofstream(file) << R"({"layers": [{"dense": {"units": 20, "activation": "relu"}}]})";
  EXPECT_EQ(weights_of(file.string()), weights_of("mlp:hidden=20"));
  std::filesystem::remove(file);
}

TEST(FindModel, SaysThatAFileIsNotThere) {
  expect_refused("nowhere.json", HasSubstr("model file 'nowhere.json' cannot be read"));
}

} // namespace
} // namespace mailgrad
