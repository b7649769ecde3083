#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/model_file.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not, testing::ThrowsMessage;

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

class ModelFile : public testing::Test {
protected:
  ~ModelFile() override { std::filesystem::remove(file_); }

  layer_stack read(std::string_view json) {
    std::ofstream(file_) << json;
    return read_model_file(file_);
  }
  layer_stack read_layers(const std::string& list) { return read("{\"layers\": [" + list + "]}"); }

  template <class... Matchers>
  void expect_refused(std::string_view json, const Matchers&... why) {
    EXPECT_THAT([&] { read(json); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(HasSubstr("model file '" + file_.string() + "'"), Not(HasSubstr("\n")), why...)))
        << json;
  }
  template <class... Matchers>
  void expect_layers_refused(const std::string& list, const Matchers&... why) {
    expect_refused("{\"layers\": [" + list + "]}", why...);
  }

private:
  const std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("mailgrad_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
};

TEST_F(ModelFile, ReadsEveryKindOfLayer) {
  const layer_stack layers = read(R"({"name": "all of them", "layers": [
      {"conv": {"filters": 32, "size": 5, "stride": 2, "padding": "valid", "activation": "relu"}},
      {"max_pool": {"size": 3, "stride": 2}},
      {"average_pool": {}},
      {"layer_norm": {}},
      {"flatten": {}},
      {"dense": {"units": 128, "activation": "gelu"}},
      {"dropout": {"rate": 0.25}},
      {"embedding": {"width": 16}},
      {"dense": {"units": "classes"}}]})");
  ASSERT_EQ(layers.size(), 9U);
  const auto& c = std::get<conv_layer>(layers[0]);
  EXPECT_EQ(c.filters, 32U);
  EXPECT_EQ(c.options.window, (std::array<std::size_t, 2>{5, 5}));
  EXPECT_EQ(c.options.stride, (std::array<std::size_t, 2>{2, 2}));
  EXPECT_EQ(c.options.pad.how, padding::rule::valid);
  EXPECT_EQ(c.options.how, activation::relu);
  EXPECT_EQ(std::get<pool_layer>(layers[1]).size, 3U);
  EXPECT_EQ(std::get<pool_layer>(layers[1]).stride, 2U);
  EXPECT_EQ(std::get<pool_layer>(layers[2]).how, pool_layer::rule::mean);
  EXPECT_EQ(std::get<pool_layer>(layers[2]).stride, 2U);
  EXPECT_EQ(std::get<dense_layer>(layers[5]).units, 128U);
  EXPECT_EQ(std::get<dense_layer>(layers[5]).how, activation::gelu);
  EXPECT_EQ(std::get<dropout_layer>(layers[6]).rate, 0.25F);
  EXPECT_EQ(std::get<embedding_layer>(layers[7]).width, 16U);
  EXPECT_FALSE(std::get<dense_layer>(layers[8]).units);
}

TEST_F(ModelFile, AddsTheOutputWhereItIsMissing) {
  EXPECT_EQ(read_layers(R"({"dense": {"units": 8, "activation": "relu"}})").size(), 2U);
  EXPECT_EQ(read_layers(R"({"dense": {"units": 8}}, {"dropout": {}})").size(), 3U);
  EXPECT_EQ(read_layers(R"({"dense": {}})").size(), 1U);
  EXPECT_EQ(read_layers(R"({"dense": {"units": 10}})").size(), 1U);
}

TEST_F(ModelFile, SaysWhereTheTextIsNoJson) {
  expect_refused("{\"layers\": [\n{\"dense\": }]}", HasSubstr("line 2"), Not(HasSubstr("json.exception")));
  expect_refused("", HasSubstr("parse error"));
}

TEST_F(ModelFile, WantsAListOfLayers) {
  expect_refused("[1, 2]", HasSubstr("expected an object, not [1,2]"));
  expect_refused("{}", HasSubstr("expected a list 'layers'"));
  expect_refused(R"({"layers": 3})", HasSubstr("expected a list 'layers' of at least one layer, not 3"));
  expect_refused(R"({"layers": []})", HasSubstr("of at least one layer, not []"));
  expect_refused(R"({"layer": []})", HasSubstr("there is no key 'layer'; did you mean 'layers'?"));
}

TEST_F(ModelFile, WantsOneKindForEachLayer) {
  expect_layers_refused(R"({"dense": {}}, "dense")", HasSubstr("layer 2: a layer is an object"),
                        HasSubstr("not \"dense\""));
  expect_layers_refused(R"({"dense": {}, "conv": {}})", HasSubstr("layer 1: a layer is an object"));
  expect_layers_refused(R"({"dens": {}})", HasSubstr("layer 1 (dens): there is no layer 'dens'"),
                        HasSubstr("did you mean 'dense'?"));
  expect_layers_refused(R"({"dense": 3})", HasSubstr("settings must be an object, not 3"));
}

TEST_F(ModelFile, NamesTheSettingThatIsWrong) {
  expect_layers_refused(R"({"flatten": {}}, {"dense": {"unit": 3}})",
                        HasSubstr("layer 2 (dense): there is no setting 'unit'; did you mean 'units'?"));
  expect_layers_refused(R"({"dense": {"units": -3}})",
                        HasSubstr("'units' must be a whole number from 1 to 1048576, not -3"));
  expect_layers_refused(R"({"dense": {"units": 0}})", HasSubstr("not 0"));
  expect_layers_refused(R"({"dense": {"units": 2.5}})", HasSubstr("not 2.5"));
  expect_layers_refused(R"({"dense": {"units": 1e99}})", HasSubstr("not 1e+99"));
  expect_layers_refused(R"({"dense": {"units": "class"}})", HasSubstr("not \"class\""));
  expect_layers_refused(R"({"conv": {}})", HasSubstr("layer 1 (conv): 'filters' is missing"));
  expect_layers_refused(R"({"conv": {"filters": 2, "padding": "sane"}})",
                        HasSubstr("'padding' cannot be 'sane'; did you mean 'same'?"));
  expect_layers_refused(R"({"dense": {"activation": 7}})", HasSubstr("'activation' cannot be '7'"));
  expect_layers_refused(R"({"dropout": {"rate": 1}})",
                        HasSubstr("'rate' must be at least 0 and less than 1, not 1"));
  expect_layers_refused(R"({"layer_norm": {"epsilon": 1}})",
                        HasSubstr("there are no settings, but here is 'epsilon'"));
}

TEST_F(ModelFile, CutsALongValueShort) {
  expect_layers_refused("{\"dense\": {\"units\": \"" + std::string(5000, 'x') + "\"}}", HasSubstr("xxx..."),
                        testing::SizeIs(testing::Lt(300U)));
}

TEST_F(ModelFile, RefusesListsThatStandTooDeepWithinEachOther) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const std::string too_deep = "stand within each other more than 32 deep";
  expect_refused(nested(100'000), HasSubstr(too_deep));
  expect_refused(std::string(100'000, '['), HasSubstr(too_deep));
  expect_refused(std::string(100'000, '{'), HasSubstr(too_deep));
  expect_layers_refused("{\"dense\": {\"units\": " + nested(100'000) + "}}", HasSubstr(too_deep));
  expect_layers_refused("{\"dense\": {\"units\": " + nested(20) + "}}", HasSubstr("'units' must be"));
  expect_layers_refused("{\"dense\": {\"units\": \"" + std::string(500, '[') + "\\\"[\"}}",
                        HasSubstr("'units' must be"));
}

TEST(ReadModelFile, SaysThatThereIsNoFile) {
  EXPECT_THAT([] { read_model_file("nowhere.json"); },
              ThrowsMessage<std::invalid_argument>("model file 'nowhere.json' cannot be read"));
}

} // namespace
} // namespace mailgrad
