#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>

#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <cmath>
#include <numeric>
#include <random>

// Files that Python's packages open: models as ONNX by onnxruntime, weights by safetensors, torch and numpy,
// event files by tensorboard. MAILGRAD_PYTHON names the interpreter, by default python3.

namespace mailgrad::testing {
namespace {

struct InPython : ToolTest {
  /// What a script prints; nothing if it fails, or if a package is missing, for which the test is skipped.
  static std::optional<std::string> printed_by(const words& script) {
    const char* python = std::getenv("MAILGRAD_PYTHON");
    tool t(as_typed{words{python ? python : "python3"} + script}, nullptr, {}, "env");
    if (t.code() == 77 || t.code() == 127)
      [] { GTEST_SKIP() << "this machine has no Python with the packages that are needed"; }();
    else if (t.code() != 0)
      ADD_FAILURE() << PrintToString(script) << t.err();
    return t.code() == 0 ? std::optional(t.out()) : std::nullopt;
  }
};

struct OnnxInPython : InPython {
  /// What the script prints of the model and these samples.
  template <class T>
  json found_of(const std::vector<T>& samples) const {
    const std::string numbers =
        folder.write("samples", {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(T)});
    const auto text =
        printed_by({MAILGRAD_OPEN_ONNX, onnx, numbers, std::is_same_v<T, float> ? "float32" : "int32"});
    return text ? json::parse(*text) : json();
  }
  template <class T>
  void expect_logits(const std::vector<T>& samples, const std::vector<float>& expected) const {
    const json found = found_of(samples);
    if (found.is_null()) return;
    for (const char* how : {"together", "alone"})
      EXPECT_THAT(found[how].get<std::vector<float>>(), Pointwise(FloatNear(1e-5F), expected)) << how;
    const auto [least, most] = std::ranges::minmax(expected);
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
    write_onnx(onnx, model, trained);
    predictor ours(model, trained);
    const std::vector<float> samples = drawn(3 * ours.inputs(), card.divisors.empty() ? 1 : card.divisors[0]);
    std::vector<float> expected(3 * ours.outputs());
    ours.answers(samples, expected);
    expect_logits(samples, expected);
  }

  const std::string onnx = path("m.onnx");
};

model_card pictures(std::string model) {
  model_card card;
  card.model = std::move(model);
  card.request = {.sample_dims = {28, 28, 1}, .classes = 10};
  card.divisors = {255};
  return card;
}

TEST_F(OnnxInPython, GivesTheLogitsOfModelsOfPictures) {
  for (const char* model : {"softmax", "mlp:hidden=64x32", "lenet"}) {
    expect_same(find_model(model), pictures(model));
    if (IsSkipped()) return;
  }
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
    write_onnx(onnx, trained);
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
  const std::string trained = path("m.safetensors");
  done(train("--quiet --save"_w + trained, "mlp:hidden=8"));
  const spoken said = done({"export", "--model-file", trained, "--onnx", onnx});
  EXPECT_EQ(said.out + said.err, "");
  const saved_weights known = load_weights(trained);
  predictor ours(known);
  const std::vector<float> samples = drawn(2 * ours.inputs(), 5);
  std::vector<float> expected(2 * ours.outputs());
  ours.answers(samples, expected);
  expect_logits(samples, expected);
  if (IsSkipped()) return;
  EXPECT_EQ(parse_model_card(found_of(samples)["metadata"]["mailgrad"].get<std::string>()).class_names,
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
  for (const auto& [onnx, says] :
       {std::pair{(folder.path() / "m.onnx").string(), "operation 'sparse_matmul' ("},
        {model, "--onnx and --model-file both name"},
        {"-", "--onnx: '-' is no file"},
        {"/dev/null", "--onnx: '/dev/null' is no file"}})
    expect_error({"export", "--model-file", model, "--onnx", onnx}, says);
}

struct WeightsInPython : InPython {
  /// Lets the script do this with a file of weights. False if it cannot.
  static bool run(const std::string& what, const std::string& file) {
    return printed_by({MAILGRAD_OPEN_WEIGHTS, what, file}).has_value();
  }
  /// What the script finds, in this way, in weights of ours.
  static json found_by(const std::string& what, const std::string& file) {
    std::vector<float> numbers(12);
    std::iota(numbers.begin(), numbers.end(), 1.0F);
    model_card card;
    card.model = "softmax";
    save_weights(
        file,
        std::vector<named_weights>{{"dense1/weights", {3, 4}, numbers}, {"one", {}, {numbers.data(), 1}}},
        card, R"({"ended":"completed"})");
    const auto text = printed_by({MAILGRAD_OPEN_WEIGHTS, what, file});
    if (!text) return {};
    json found = json::parse(*text);
    EXPECT_EQ(found["arrays"], json::parse(R"({"dense1/weights":[[3,4],78.0],"one":[[],1.0]})"));
    return found;
  }
  /// The same as a file with metadata.
  void expect_opened_by(const std::string& what) const {
    const json found = found_by(what, weights);
    if (found.is_null()) return;
    const json& told = found["metadata"];
    EXPECT_EQ(told["report"], R"({"ended":"completed"})");
    EXPECT_EQ(parse_model_card(told["mailgrad"].get<std::string>()).model, "softmax");
  }
  static void expect_values(const saved_weights& read, const std::string& name,
                            const std::vector<float>& values) {
    EXPECT_THAT(read.find(name)->values.values(), ElementsAreArray(values)) << name;
  }

  const std::string weights = path("m.safetensors"), npz = path("m.npz");
  const std::vector<float> whole{0, 1, 2, 3, 4, 5}, eighths{0, 0.125, 0.25, 0.375, 0.5, 0.625};
};

TEST_F(WeightsInPython, AreOpenedThere) { expect_opened_by("read"); }

TEST_F(WeightsInPython, AreReadFromThere) {
  if (!run("write", weights)) return;
  const saved_weights read = load_weights(weights);
  EXPECT_FALSE(read.card);
  expect_values(read, "half", whole);
  expect_values(read, "single", whole);
  expect_values(read, "double", eighths);
  EXPECT_EQ(read.find("double")->values.dims(), (shape{2, 3}));
}

TEST_F(WeightsInPython, AreOpenedByPyTorch) { expect_opened_by("read-torch"); }

/// With bfloat16, and with the whole number that counts the batches of a normalisation, which is no weight.
TEST_F(WeightsInPython, AreReadFromPyTorch) {
  if (!run("write-torch", weights)) return;
  const saved_weights read = load_weights(weights);
  EXPECT_FALSE(read.card);
  EXPECT_EQ(read.find("0.weight")->values.dims(), (shape{2, 3}));
  expect_values(read, "0.weight", whole);
  expect_values(read, "half", whole);
  expect_values(read, "brain", eighths);
  expect_values(read, "1.running_var", {1, 1});
  EXPECT_EQ(read.find("1.num_batches_tracked"), nullptr);
  EXPECT_THAT(read.others, ElementsAre(HasSubstr("'1.num_batches_tracked' holds numbers of type 'I64'")));
}

TEST_F(WeightsInPython, AreOpenedByNumpy) {
  const json found = found_by("read-npz", npz);
  if (found.is_null()) return;
  EXPECT_EQ(found["card"]["model"], "softmax");
  EXPECT_EQ(found["report"]["ended"], "completed");
}

TEST_F(WeightsInPython, AreReadFromNumpy) {
  for (const char* what : {"write-npz", "write-packed-npz"}) {
    if (!run(what, npz)) return;
    const saved_weights read = load_weights(npz);
    EXPECT_FALSE(read.card);
    expect_values(read, "half", whole);
    expect_values(read, "a/single", whole);
    expect_values(read, "double", eighths);
    EXPECT_EQ(read.find("double")->values.dims(), (shape{2, 3}));
    EXPECT_EQ(read.find("scalar")->values.dims(), shape());
  }
}

TEST_F(WeightsInPython, AreRefusedWhereNumpyPickles) {
  if (!run("write-objects", npz)) return;
  EXPECT_EQ(
      complaint([&] { load_weights(npz); }),
      "m.npz: array 'objects': expected numbers, found Python objects, which would run code of the file");
}

/// The field of a line of metrics that is drawn under each tag.
const std::map<std::string, std::string> fields{
    {"loss/train", "train_loss"},       {"loss/test", "test_loss"},
    {"accuracy/test", "test_accuracy"}, {"staleness/mean", "staleness_mean"},
    {"staleness/p99", "staleness_p99"}, {"ledger/computed", "computed"},
    {"ledger/applied", "applied"},      {"ledger/merged", "merged"},
    {"ledger/discarded", "discarded"},  {"throughput/samples_per_s", "samples_per_s"},
    {"waits/seconds", "waiting_s"},     {"progress/epoch", "epoch"},
    {"progress/updates", "updates"},    {"learning_rate", "learning_rate"}};

struct TensorboardInPython : InPython {
  words train(const words& more) const {
    return testing::train("--metrics-every 20 --metrics"_w + path("m.jsonl") + "--report" + path("run.json") +
                          "--tensorboard" + path("board") + more);
  }
  /// The same on two workers and two shards, in an empty folder.
  words train_two(const std::string& policy, const words& more) const {
    std::filesystem::remove_all(path("board"));
    return train("--devices cpu:0,cpu:0 --shards 2 --policy"_w + policy + more);
  }
  words resumed(const char* steps) const {
    return "train --same-outputs --resume"_w + path("kept") + "--steps" + steps;
  }
  std::vector<json> lines(const char* name = "m.jsonl") const {
    std::vector<json> all;
    for (const std::string& line : lines_of(content_of(path(name)))) all.push_back(json::parse(line));
    return all;
  }
  /// What TensorBoard reads.
  json board() const {
    const auto text = printed_by({MAILGRAD_OPEN_BOARD, path("board")});
    return text ? json::parse(*text) : json();
  }

  /// Every known figure of these lines is there, at its step and time, and nothing else.
  static void expect_scalars(const json& scalars, const std::vector<json>& lines) {
    EXPECT_EQ(scalars.size(), fields.size() + 1) << "and how often the policy changed";
    for (const auto& [tag, field] : fields) {
      ASSERT_TRUE(scalars.contains(tag)) << tag;
      const json& events = scalars[tag];
      std::size_t next = 0;
      for (const json& line : lines) {
        if (line.value(field, json()).is_null()) continue;
        ASSERT_LT(next, events.size()) << tag;
        const json& event = events[next++];
        EXPECT_EQ(event[0], line["steps"]) << tag;
        EXPECT_EQ(event[2].get<double>(), static_cast<double>(line[field].get<float>())) << tag;
      }
      EXPECT_EQ(next, events.size()) << tag;
    }
  }
};

TEST_F(TensorboardInPython, HasTheFiguresOfEveryLine) {
  for (const char* policy : {"async", "hogwild"}) {
    done(train_two(policy, "--steps 40000 --evaluate-every 5000 --schedule step:every=20000,factor=0.5"_w));
    const json read = board();
    if (read.is_null()) return;
    const std::vector<json> told = lines();
    expect_scalars(read["scalars"], told);
    const json& epochs = read["scalars"]["progress/epoch"];
    ASSERT_EQ(epochs.size(), told.size());
    for (std::size_t i = 0; i < told.size(); ++i)
      EXPECT_NEAR(epochs[i][1].get<double>() - epochs[0][1].get<double>(),
                  told[i]["time_s"].get<double>() - told[0]["time_s"].get<double>(), 1e-5);
  }
}

TEST_F(TensorboardInPython, MarksSwitchesAndNamesTheOptions) {
  done(train("--steps 2000 --policy 'async, ssp:2@500' --devices cpu:0,cpu:0"_w));
  const json read = board();
  if (read.is_null()) return;
  const json& texts = read["texts"]["policy"];
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0], (json{0, "`async`"}));
  EXPECT_EQ(texts[1][0], report()["switches"][0]["step"]);
  EXPECT_TRUE(texts[1][1].get<std::string>().starts_with("`ssp:2`, after `async` until step ")) << texts;
  EXPECT_EQ(read["scalars"]["policy/switches"][1][2], 1.0);
  const json& options = read["options"];
  EXPECT_EQ(options["policy"], "async, ssp:2@500");
  EXPECT_EQ(options["model"], "softmax");
  EXPECT_EQ(options["batch"], 4.0);
}

TEST_F(TensorboardInPython, CountsTheGapsOfTheReport) {
  for (const char* policy : {"async", "hogwild", "ssp:1"}) {
    done(train_two(policy, "--steps 20000"_w));
    const json read = board();
    if (read.is_null()) return;
    std::map<double, double> found;
    for (const json& event : read["histograms"]["staleness/gaps"]) {
      const json& h = event[1];
      double counted = 0;
      for (std::size_t i = 0; i < h["bucket"].size(); ++i) {
        const double count = h["bucket"][i];
        counted += count;
        if (count > 0) found[h["bucket_limit"][i].get<double>() - 0.5] += count;
      }
      EXPECT_EQ(counted, h["num"].get<double>());
    }
    std::map<double, double> expected;
    const json r = report();
    for (const json& bucket : r["staleness"]["histogram"]) expected[bucket[0]] = bucket[1];
    EXPECT_EQ(found, expected) << policy;
  }
}

/// Both processes write a file of their own, and TensorBoard draws one run.
TEST_F(TensorboardInPython, DrawsAResumedRunAsOne) {
  done(train("--steps 10000 --checkpoint"_w + path("kept")));
  std::vector<json> told = lines();
  // The checkpoint of the end is a few ms older than the end, so the last lines may overlap in time.
  const double half = told.back()["time_s"].get<double>() / 2;
  done(resumed("30000") + "--metrics" + path("second.jsonl"));
  const json read = board();
  if (read.is_null()) return;
  for (const json& line : lines("second.jsonl")) {
    EXPECT_GT(line["steps"], 10000);
    EXPECT_GT(line["time_s"], half);
    told.push_back(line);
  }
  EXPECT_EQ(told.back()["steps"], 30000);
  expect_scalars(read["scalars"], told);
}

/// What a process did after its last checkpoint is lost, and done again by the next one.
TEST_F(TensorboardInPython, LeavesOutWhatWasLost) {
  done(train("--steps 10000 --checkpoint"_w + path("kept")));
  done(resumed("20000") + "--checkpoint" + path("elsewhere"));
  done(resumed("20000") + "--metrics" + path("again.jsonl"));
  const json read = board();
  if (read.is_null()) return;
  std::vector<std::uint64_t> steps, expected;
  for (const json& event : read["scalars"]["progress/epoch"])
    if (event[0] > 10000) steps.push_back(event[0]);
  for (const json& line : lines("again.jsonl")) expected.push_back(line["steps"]);
  EXPECT_EQ(steps, expected);
}

} // namespace
} // namespace mailgrad::testing
