#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

// Models as ONNX, compared with Python's package onnxruntime. MAILGRAD_PYTHON names the interpreter, by
// default python3.

namespace mailgrad {
namespace {

using testing::drawn_weights;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using testing::tool;

class OnnxInPython : public ::testing::Test {
protected:
  /// What the script prints of the model and these samples. Skips the test where a package is missing.
  template <class T>
  void run(const std::vector<T>& samples, nlohmann::json& printed) const {
    const std::filesystem::path numbers = folder_.path() / "samples";
    std::ofstream(numbers, std::ios::binary)
        .write(reinterpret_cast<const char*>(samples.data()),
               static_cast<std::streamsize>(samples.size() * sizeof(T)));
    const char* python = std::getenv("MAILGRAD_PYTHON");
    const std::string command = std::string(python ? python : "python3") + " " MAILGRAD_OPEN_ONNX " '" +
                                path_.string() + "' '" + numbers.string() + "' " +
                                (std::is_same_v<T, float> ? "float32" : "int32");
    std::FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
      GTEST_SKIP() << "this machine has no Python with the packages onnx and onnxruntime";
    ASSERT_EQ(status, 0) << command;
    printed = nlohmann::json::parse(text);
  }

  template <class T>
  void expect_logits(const std::vector<T>& samples, const std::vector<float>& expected) const {
    nlohmann::json found;
    run(samples, found);
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_THAT(found["together"].get<std::vector<float>>(), Pointwise(FloatNear(1e-5F), expected));
    EXPECT_THAT(found["alone"].get<std::vector<float>>(), Pointwise(FloatNear(1e-5F), expected));
    const float least = *std::ranges::min_element(expected), most = *std::ranges::max_element(expected);
    EXPECT_GT(most - least, 0.05F) << "logits that are all alike show nothing";
  }

  /// Numbers as a file has them, up to `most`.
  static std::vector<float> drawn(std::size_t count, float most) {
    std::mt19937 random(7);
    std::vector<float> numbers(count);
    for (float& n : numbers) n = static_cast<float>(random() % 1024) / 1023 * most;
    return numbers;
  }

  void expect_same(const model_function& model, const model_card& card) const {
    const saved_weights trained = drawn_weights(model, card);
    write_onnx(path_, model, trained);
    predictor ours(model, trained);
    const std::vector<float> samples = drawn(3 * ours.inputs(), card.divisors.empty() ? 1 : card.divisors[0]);
    std::vector<float> expected(3 * ours.outputs());
    ours.answers(samples, expected);
    expect_logits(samples, expected);
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "m.onnx";
};

model_card pictures(std::string model) {
  model_card card;
  card.model = std::move(model);
  card.request = {.sample_dims = {28, 28, 1}, .classes = 10};
  card.divisors = {255};
  return card;
}

TEST_F(OnnxInPython, GivesTheLogitsOfSoftmaxRegression) {
  expect_same(find_model("softmax"), pictures("softmax"));
}

TEST_F(OnnxInPython, GivesTheLogitsOfAnMlp) {
  expect_same(find_model("mlp:hidden=64x32"), pictures("mlp:hidden=64x32"));
}

TEST_F(OnnxInPython, GivesTheLogitsOfEveryActivation) {
  for (const char* how : {"gelu", "tanh", "sigmoid", "none"}) {
    const std::string model = "mlp:hidden=16,dropout=0.5,activation=" + std::string(how);
    model_card card = pictures(model);
    card.request.sample_dims = {4};
    card.divisors = {2, 0.5F, 10, 3}; // one for each number
    expect_same(find_model(model), card);
    if (IsSkipped()) return;
  }
}

TEST_F(OnnxInPython, GivesTheLogitsOfLenet) { expect_same(find_model("lenet"), pictures("lenet")); }

TEST_F(OnnxInPython, GivesTheNumbersOfARegression) {
  model_card card;
  card.request = {.sample_dims = {6}, .wanted = answer::a_number, .target_dims = {2}, .classes = 0};
  expect_same(find_model("mlp:hidden=8"), card);
}

TEST_F(OnnxInPython, GivesTheLogitsOfATransformerAtEveryPlace) {
  for (const char* model : {"gpt:layers=2,width=24,heads=3", "gpt:layers=1,width=8,heads=1,tied=no"}) {
    constexpr std::size_t window = 11, samples = 3;
    model_card card;
    card.model = model;
    card.request = {.sample_dims = {window}, .features = feature_kind::tokens, .classes = 20};
    const saved_weights trained = drawn_weights(card);
    write_onnx(path_, trained);
    const parameter_layout layout = lay_out(find_model(model), card.request, 1);
    const weights_fit weights = fit(trained, layout, std::vector<float>(layout.size()));
    std::vector<std::int32_t> tokens(window * samples + 1);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i % 20);
    const dataset texts(token_windows{tokens, window, window}, {}, 20);
    host_queue here;
    forward_pass pass(find_model(model), card.request, layout, texts, samples, false, here);
    const std::vector<std::uint32_t> which{0, 1, 2};
    const auto logits = pass.run(addresses_of("test", weights.parameters, layout), texts, which);
    tokens.pop_back(); // only a label
    expect_logits(tokens, {logits.begin(), logits.end()});
    if (IsSkipped()) return;
  }
}

/// The operations that no built-in model has.
model_outputs of_many_operations(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 7, 6, 3});
  conv_options wide{{3, 2}, {2, 1}, padding::of(1, 1), activation::none};
  const value convolved = conv(x, 4, "conv", wide);
  const value even = conv(x, 4, "even", {{4, 4}, {2, 3}, padding::same(), activation::tanh});
  const value pooled = average_pool(even, {{3, 2}, {1, 1}, padding::same()});
  const value largest = max_pool(convolved, {{2, 3}, {2, 2}, padding::valid()});
  const value both = concat(std::vector{flatten(pooled), flatten(largest)}, 1);
  const auto parts = split(both, 1, {5, both.dims()[1] - 5});
  const value few = softmax(parts[0]) - exp(-square(parts[0]));
  const value mean = reduce_mean(parts[1], {1}, summed_axes::kept_as_one);
  const value some = sqrt(square(slice(parts[1], 1, 2, 7)) + 1) / (log(square(few) + 2) * 3);
  const value square_matrices = reshape(concat(std::vector{some, few, few, some, some}, 1), {r.batch, 5, 5});
  const value product = matmul(square_matrices, transpose(square_matrices, {0, 2, 1}),
                               {.a = operand_order::transposed, .b = operand_order::transposed});
  const value row = squeeze(slice(product, 1, 1, 2), 1);
  const value logits = dense(row + mean * reduce_sum(few, {1}, summed_axes::kept_as_one), 3, "out");
  return {logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
}

TEST_F(OnnxInPython, GivesTheLogitsOfAModelFunction) {
  model_card card;
  card.request = {.sample_dims = {7, 6, 3}, .classes = 3};
  expect_same(of_many_operations, card);
}

/// From the command line, of a trained model, whose class names the file tells.
TEST_F(OnnxInPython, IsWrittenByTheTool) {
  const std::string trained = (folder_.path() / "m.safetensors").string();
  tool train({"train", "--model", "mlp:hidden=8", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--save",
              trained, "--quiet"});
  ASSERT_EQ(train.code(), 0) << train.err();
  tool written({"export", "--model-file", trained, "--onnx", path_.string()});
  ASSERT_EQ(written.code(), 0) << written.err();
  EXPECT_EQ(written.out() + written.err(), "");
  const saved_weights known = load_weights(trained);
  predictor ours(known);
  const std::vector<float> samples = drawn(2 * ours.inputs(), 5);
  std::vector<float> expected(2 * ours.outputs());
  ours.answers(samples, expected);
  expect_logits(samples, expected);
  if (IsSkipped()) return;
  nlohmann::json found;
  run(samples, found);
  EXPECT_EQ(parse_model_card(found["metadata"]["mailgrad"].get<std::string>()).class_names,
            known.card->class_names);
}

TEST(Export, RefusesWhatItCannotWrite) {
  const scratch_folder folder;
  const std::string model = (folder.path() / "m.safetensors").string();
  model_card card = pictures("softmax");
  card.request.sample_dims = {5};
  card.request.nonzeros = 1;
  const parameter_layout layout = lay_out(find_model("softmax"), card.request, 1);
  const std::vector<float> zeros(layout.size());
  save_weights(model, weights_by_name(layout, zeros), card);
  const auto refused = [&](const std::string& onnx, const std::string& says) {
    tool t({"export", "--model-file", model, "--onnx", onnx});
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(says));
  };
  refused((folder.path() / "m.onnx").string(), "operation 'sparse_matmul' (");
  refused(model, "--onnx and --model-file both name");
  refused("-", "--onnx: '-' is no file");
  refused("/dev/null", "--onnx: '/dev/null' is no file");
}

} // namespace
} // namespace mailgrad
