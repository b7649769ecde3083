#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>

// tests/cli/onnx_in_python_test.cpp runs the files of ONNX.

namespace mailgrad {
namespace {

using testing::drawn_weights;
using testing::expect_refused;
using testing::layout_of;
using testing::small_data;
using testing::small_model;
using namespace ::testing;

std::vector<float> counted(const parameter_layout& layout) {
  std::vector<float> values(layout.size());
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

class WeightsFile : public ::testing::Test {
protected:
  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "model.safetensors";
};

/// Nobody is refused a disk that has room, or told of one that has not.
TEST_F(WeightsFile, HasTheBytesThatAreReckonedBefore) {
  const parameter_layout small = layout_of({{"a", {3, 2}}, {"a long name of a variable", {5}}}, 2);
  const parameter_layout large = layout_of({{"block1/attention/queries", {100, 300}},
                                            {"block1/attention/keys", {100, 300}},
                                            {"block2/attention/queries", {100, 300}},
                                            {"block2/attention/keys", {100, 300}}},
                                           3);
  model_card card;
  card.model = "mlp:hidden=16";
  card.class_names = {"with \"quotes\"", "another"};
  const std::string report(std::size_t{16} << 10, 'r');
  for (const parameter_layout* layout : {&small, &large})
    for (const char* name : {"m.safetensors", "m.npz"}) {
      const std::vector<float> values = counted(*layout);
      const std::filesystem::path file = folder_.path() / name;
      save_weights(file, weights_by_name(*layout, values), card, report);
      const std::uint64_t is = std::filesystem::file_size(file), most = bytes_to_save(*layout, card);
      EXPECT_LE(is, most) << name;
      EXPECT_LE(most, is + is / 2) << name << " takes " << is;
    }
}

TEST_F(WeightsFile, SaysWhatIsNoFileOfWeights) {
  const auto loading = [this](const std::string& bytes) {
    return [this, bytes] { load_weights(folder_.write("x", bytes)); };
  };
  const std::string length(8, '\x11');
  const auto zip = [](const std::string& name) {
    return "PK\3\4" + std::string(22, '\0') + std::string(1, static_cast<char>(name.size())) +
           std::string(3, '\0') + name + std::string(100, 'x');
  };
  expect_refused({
      {"a folder", [this] { load_weights(folder_.path()); }, "found a folder; name a file in it"},
      {"nothing", loading(""), "found an empty file; name one that 'mailgrad train --save' wrote"},
      {"ONNX", loading(std::string("\x08\x0a\x12\x07pytorch:", 12) + length),
       "found a model of ONNX; name the file of weights that it was exported from"},
      {"ONNX without a producer", loading(std::string("\x08\x08\x3a\x90\x01", 5) + length),
       "a model of ONNX"},
      {"PyTorch", loading(zip("archive/data.pkl")), "a pickle of PyTorch; write its weights by safetensors"},
      {"an old one", loading("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8"), "a pickle of PyTorch"},
      {"another archive", loading(zip("data.pkl.txt")), "zip archive of numpy"},
      {"noise", loading(length + length), "the header is said to have"},
      {"no file", [this] { load_weights(folder_.path() / "none"); }, "No such file"},
  });
}

/// The length of its header may be written as a model of ONNX begins.
TEST_F(WeightsFile, IsNotTakenForAModelOfOnnx) {
  constexpr std::uint64_t length = 0x120d08;
  const float one = 1;
  const auto header_bytes = [&](std::size_t text) {
    write_safetensors(path_, std::vector<array_to_store>{{"a", {1}, {&one, 1}}},
                      {{"text", std::string(text, 't')}});
    return std::filesystem::file_size(path_) - 8 - sizeof one;
  };
  ASSERT_EQ(header_bytes(length - header_bytes(0)), length);
  EXPECT_THAT(load_weights(path_).variables, SizeIs(1));
}

/// What a file is called says nothing when it is read, but makes it one of numpy when it is written.
TEST_F(WeightsFile, GivesBackTheVariablesByTheirNames) {
  const parameter_layout layout = layout_of({{"a", {3, 2}}, {"t", {4, 2}, true}, {"dense1/b", {5}}}, 2);
  const std::vector<float> values = counted(layout);
  model_card card;
  card.model = "mlp";
  card.request.sample_dims = {4};
  for (const char* name : {"model.safetensors", "model.npz"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path path = folder_.path() / name;
    save_weights(path, weights_by_name(layout, values), card, R"({"ended":"completed"})");
    const saved_weights read = load_weights(path);
    EXPECT_EQ(read.file, path.string());
    EXPECT_EQ(read.card.value().model, "mlp");
    EXPECT_EQ(read.report, R"({"ended":"completed"})");
    ASSERT_THAT(read.variables, SizeIs(3));
    EXPECT_EQ(read.find("c"), nullptr);
    for (const placed_variable& v : layout.variables()) {
      const auto* const found = read.find(v.name);
      ASSERT_NE(found, nullptr) << v.name;
      EXPECT_EQ(found->values.dims(), v.dims);
      EXPECT_THAT(found->values.values(),
                  ElementsAreArray(std::span(values).subspan(v.offset, v.dims.size())));
    }
    const weights_fit whole = fit(read, layout, std::vector<float>(layout.size()));
    EXPECT_NO_THROW(require_whole(read, whole));
    for (const named_weights& w : weights_by_name(layout, whole.parameters))
      EXPECT_THAT(w.values, ElementsAreArray(read.find(w.name)->values.values())) << w.name;
  }
  std::filesystem::rename(folder_.path() / "model.npz", path_);
  EXPECT_EQ(load_weights(path_).card.value().model, "mlp");
}

/// The numbers between two variables, which belong to none, stay 0.
TEST_F(WeightsFile, OfAnotherProgramHasNoGpu) {
  const std::vector<float> two{1, 2};
  write_safetensors(path_, std::vector<array_to_store>{{"w", {2}, two}}, {{"format", "pt"}});
  const saved_weights read = load_weights(path_);
  EXPECT_FALSE(read.card);
  EXPECT_THAT(read.report, IsEmpty());
  EXPECT_THAT(read.find("w")->values.values(), ElementsAre(1, 2));
  write_safetensors(path_, {}, {{"mailgrad", "{}"}});
  expect_refused(
      {{"a card of nothing", [&] { load_weights(path_); }, "model card: there is no field 'edition'"}});
}

TEST_F(WeightsFile, TakesWhatFitsAndTellsTheRest) {
  const parameter_layout saved = layout_of({{"same", {3}}, {"wider", {4}}, {"left over", {2}}}, 1);
  const parameter_layout model = layout_of({{"new", {2}}, {"same", {3}}, {"wider", {5}}}, 3);
  save_weights(path_, weights_by_name(saved, counted(saved)), {});
  const saved_weights read = load_weights(path_);
  const weights_fit found = fit(read, model, std::vector<float>(model.size(), -1));
  EXPECT_THAT(found.taken, ElementsAre("same"));
  EXPECT_THAT(found.differences, ElementsAre("variable 'new' is not in the file",
                                             "variable 'wider' is 4 in the file, and 5 in the model",
                                             "array 'left over' of the file is no variable of the model"));
  for (const named_weights& w : weights_by_name(model, found.parameters)) {
    if (w.name == "same")
      EXPECT_THAT(w.values, ElementsAre(1, 2, 3));
    else
      EXPECT_THAT(w.values, Each(-1.0F)) << w.name;
  }
  expect_refused({{"as a whole", [&] { require_whole(read, found); },
                   "model.safetensors': variable 'new' is not in the file; 2 more differences"}});
}

/// PyTorch counts the batches of a normalisation beside its weights.
TEST_F(WeightsFile, OfAnotherProgramMayHoldOtherNumbersBesideWeights) {
  const parameter_layout model = layout_of({{"w", {2}}}, 1);
  std::string text = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                     R"("seen":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(text.size());
  folder_.write("model.safetensors", bytes + text + std::string(16, '\0'));
  const saved_weights read = load_weights(path_);
  const weights_fit found = fit(read, model, std::vector<float>(model.size(), -1));
  EXPECT_THAT(found.taken, ElementsAre("w"));
  const std::string why = "array 'seen' holds numbers of type 'I64'; weights are F32, F64, F16 or BF16";
  EXPECT_THAT(found.differences, ElementsAre(why));
  expect_refused({{"as a whole", [&] { require_whole(read, found); }, "model.safetensors': " + why}});
}

TEST_F(WeightsFile, RefusesNumbersThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> first{nan, 1}, second{1, -inf};
  for (const char* name : {"m.safetensors", "m.npz"}) {
    const std::filesystem::path path = folder_.path() / name;
    save_weights(path, std::vector<named_weights>{{"v", {1}, std::span(second).first(1)}, {"w", {2}, second}},
                 {});
    expect_refused({{name, [&] { load_weights(path); },
                     std::string(name) + ": array 'w': number 1 is -inf; weights must be finite"}});
    save_weights(path, std::vector<named_weights>{{"w", {2}, first}}, {});
    expect_refused(
        {{name, [&] { load_weights(path); }, "array 'w': number 0 is nan; weights must be finite"}});
  }
}

TEST_F(WeightsFile, RefusesWeightsOfWhichNoneFits) {
  const parameter_layout layout = layout_of({{"a", {3}}, {"b", {2}}}, 1);
  const auto loading = [&](const std::string& name, const shape& dims) {
    return [&layout, name, dims] {
      saved_weights from{.file = "m.safetensors", .variables = {}};
      from.variables.push_back({name, tensor(dims)});
      require_some(from, fit(from, layout, std::vector<float>(layout.size())));
    };
  };
  expect_refused({{"other names", loading("c", {3}),
                   "weights of 'm.safetensors' fit no variable of the model, so nothing was loaded: "},
                  {"another shape", loading("a", {4}), "nothing was loaded: variable 'a' is 4 in the file"}});
  EXPECT_NO_THROW(loading("b", {2})());
  const std::vector<float> few(layout.size() - 1);
  expect_refused({
      {"to save", [&] { weights_by_name(layout, few); }, "weights: 31 numbers, where the layout has 32"},
      {"to begin with", [&] { fit({}, layout, few); }, "weights: 31 numbers"},
  });
}

using json = nlohmann::ordered_json;

/// A card with a value of its own in every field.
model_card full_card() {
  model_card card;
  card.model = "mlp:hidden=24x16";
  card.request.sample_dims = {28, 28, 1};
  card.request.categories = {7, 9};
  card.request.inputs = {{"image", {{28, 28, 1}, dtype::float32}}, {"user", {{}, dtype::int32}}};
  card.request.classes = 3;
  card.class_names = {"shirt", "\"coat\"", "Schürze"};
  card.divisors = {255, 0.1F, -2};
  return card;
}

TEST(ModelCard, IsReadAsItWasWritten) {
  const model_card card = full_card();
  const model_card read = parse_model_card(to_json(card));
  EXPECT_EQ(read.model, card.model);
  EXPECT_EQ(read.request.sample_dims, card.request.sample_dims);
  EXPECT_EQ(read.request.features, feature_kind::numbers);
  EXPECT_EQ(read.request.wanted, answer::a_class);
  EXPECT_EQ(read.request.categories, card.request.categories);
  EXPECT_EQ(read.request.inputs, card.request.inputs);
  EXPECT_EQ(read.request.classes, 3U);
  EXPECT_EQ(read.request.nonzeros, 0U);
  EXPECT_EQ(read.class_names, card.class_names);
  EXPECT_EQ(read.divisors, card.divisors);
  model_card other = card;
  other.request.wanted = answer::a_number;
  other.request.features = feature_kind::tokens;
  other.request.target_dims = {4};
  other.request.nonzeros = 12;
  other.request.classes = 0;
  other.class_names.clear();
  const model_card again = parse_model_card(to_json(other));
  EXPECT_EQ(again.request.wanted, answer::a_number);
  EXPECT_EQ(again.request.features, feature_kind::tokens);
  EXPECT_EQ(again.request.target_dims, (shape{4}));
  EXPECT_GT(again.request.nonzeros, 0U) << "samples are sparse";
}

/// The card of a model of a table: a column that is left out, a number, and words.
model_card card_of_a_table() {
  model_card card;
  card.model = "softmax";
  card.request.sample_dims = {3};
  card.request.classes = 2;
  card.table = {.columns = {{"key", column_kind::left_out, {}},
                            {"", column_kind::number, {}, {',', true}},
                            {"colour", column_kind::category, {"blue", "r\"ed"}}},
                .label = 3,
                .missing = missing_values::mean,
                .means = {0.1F, 0.25F, 0.75F},
                .label_signs = {',', false},
                .label_name = "kind"};
  return card;
}

TEST(ModelCard, TellsHowRowsOfATableBecomeSamples) {
  const table_layout wrote = card_of_a_table().table;
  const table_layout read = parse_model_card(to_json(card_of_a_table())).table;
  ASSERT_EQ(read.columns.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.columns[i].name, wrote.columns[i].name);
    EXPECT_EQ(read.columns[i].kind, wrote.columns[i].kind);
    EXPECT_EQ(read.columns[i].categories, wrote.columns[i].categories);
  }
  EXPECT_EQ(read.label, 3U);
  EXPECT_EQ(read.missing, missing_values::mean);
  EXPECT_EQ(read.means, wrote.means);
  EXPECT_EQ(read.columns[1].signs, wrote.columns[1].signs);
  EXPECT_EQ(read.columns[2].signs, number_signs());
  EXPECT_EQ(read.label_signs, wrote.label_signs);
  EXPECT_EQ(read.label_name, "kind");
  EXPECT_THAT(parse_model_card(to_json(full_card())).table.columns, IsEmpty()) << "other cards have none";
}

TEST(ModelCard, RefusesATableThatDoesNotFit) {
  const auto with = [](const char* pointer, const json& value) {
    json card = json::parse(to_json(card_of_a_table()));
    card[json::json_pointer(pointer)] = value;
    return [text = card.dump()] { parse_model_card(text); };
  };
  expect_refused({
      {"no table", with("/table", 7), "'table' must be an object"},
      {"no columns", with("/table/columns", json::array()), "'columns' must be a list"},
      {"a column that is none", with("/table/columns/0", 1), "'columns' must be objects"},
      {"an unknown kind", with("/table/columns/1/kind", "colour"), "'kind' is 'colour'"},
      {"a decimal sign that is none", with("/table/columns/1/decimal", "x"), "'decimal' is ',' or '.'"},
      {"a number with categories", with("/table/columns/1/categories", {"a"}), "has 1 categories"},
      {"words without categories", with("/table/columns/2/categories", json::array()), "has 0 categories"},
      {"more categories than numbers", with("/table/columns/2/categories", {"a", "b", "c"}),
       "makes 4 numbers"},
      {"a label beyond", with("/table/label", 4), "the label is column 4 of 4"},
      {"a policy nobody knows", with("/table/missing", "guess"), "'missing' is 'guess'"},
      {"means too few", with("/table/means", {1, 2}), "with 2 means, where a sample has 3"},
      {"means that nobody asked for", with("/table/missing", "drop"), "with 3 means"},
      {"a mean that is a word", with("/table/means", {1, "x", 2}), "'means' must be finite numbers"},
  });
}

TEST(ModelCard, DescribesTheDataThatAModelIsTrainedOn) {
  data_split data = *small_data();
  data.class_names = {"a", "b", "c"};
  data.divisors = {255};
  const model_card card = card_for("softmax", data);
  EXPECT_EQ(card.model, "softmax");
  EXPECT_EQ(card.request.sample_dims, (shape{4}));
  EXPECT_EQ(card.request.classes, 3U);
  EXPECT_THAT(card.class_names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(card.divisors, ElementsAre(255));
  EXPECT_GT(card_for("softmax", *testing::sparse_data()).request.nonzeros, 0U);
}

TEST(ModelCard, TellsWhetherColumnsOfSparseRowsCountFromZero) {
  model_card card = full_card();
  EXPECT_FALSE(parse_model_card(to_json(card)).counts_from_zero);
  card.counts_from_zero = true;
  EXPECT_TRUE(parse_model_card(to_json(card)).counts_from_zero);
  json object = json::parse(to_json(card));
  object["first_column"] = 2;
  expect_refused(
      {{"another column", [&] { parse_model_card(object.dump()); }, "'first_column' must be 0 or 1, not 2"}});
  data_split data = *small_data();
  for (const column_numbering from : {column_numbering::from_zero, column_numbering::from_one}) {
    data.source = std::make_shared<const data_source>(data_source{"rows", {.numbering = from}});
    EXPECT_EQ(card_for("softmax", data).counts_from_zero, from == column_numbering::from_zero);
  }
}

TEST(ModelCard, RefusesWhatNoProgramHasWritten) {
  const auto reading = [](const std::function<void(json&)>& change) {
    return [change] {
      json object = json::parse(to_json(full_card()));
      change(object);
      parse_model_card(object.dump());
    };
  };
  EXPECT_NO_THROW(reading([](json&) {})());
  expect_refused({
      {"no JSON", [] { parse_model_card("{\"edition\":"); }, "model card: expected a JSON object"},
      {"a list", [] { parse_model_card("[]"); }, "expected a JSON object"},
      {"deep", [] { parse_model_card(std::string(100, '[')); }, "too deep"},
      {"a later edition", reading([](json& o) { o["edition"] = 2; }), "edition 2 is unknown"},
      {"a missing field", reading([](json& o) { o.erase("sample"); }), "there is no field 'sample'"},
      {"a model of numbers", reading([](json& o) { o["model"] = 4; }), "'model' must be a text, not 4"},
      {"another answer", reading([](json& o) { o["answer"] = "poems"; }),
       "'answer' is 'classes' or 'numbers'"},
      {"a negative extent", reading([](json& o) { o["sample"] = {-1}; }), "'sample' must be whole numbers"},
      {"a huge extent", reading([](json& o) { o["sample"] = {std::uint64_t{1} << 40}; }),
       "'sample' must be whole"},
      {"an extent that wraps", reading([](json& o) { o["sample"] = std::vector(4, 1U << 30); }), "'sample'"},
      {"nine axes", reading([](json& o) { o["sample"] = std::vector(9, 1); }), "'sample'"},
      {"half a class", reading([](json& o) { o["classes"] = 2.5; }), "'classes' must be whole"},
      {"too few names", reading([](json& o) { o["classes"] = 4; }), "3 class names for 4 classes"},
      {"a name of numbers", reading([](json& o) { o["class_names"][0] = 1; }), "'class_names' must be texts"},
      {"division by zero", reading([](json& o) { o["divisors"] = {0}; }), "finite numbers other than 0"},
      {"division by a word", reading([](json& o) { o["divisors"] = {"x"}; }), "finite numbers"},
      {"division by 1e99", reading([](json& o) { o["divisors"] = {1e99}; }), "finite numbers"},
      {"perhaps sparse", reading([](json& o) { o["sparse"] = 1; }), "'sparse' must be true or false"},
      {"an input of words", reading([](json& o) { o["inputs"] = {"x"}; }), "'inputs' must be objects"},
      {"an input of another type", reading([](json& o) { o["inputs"][0]["type"] = "float64"; }),
       "'type' is 'float32' or 'int32'"},
  });
}

model_card card_of_rows(std::string model = "mlp:hidden=5") {
  model_card card;
  card.model = std::move(model);
  card.request = {.sample_dims = {4}, .classes = 3};
  return card;
}

class OnnxFile : public ::testing::Test {
protected:
  onnx::ModelProto read() const {
    onnx::ModelProto model;
    std::ifstream in(path_, std::ios::binary);
    EXPECT_TRUE(model.ParseFromIstream(&in));
    return model;
  }

  std::vector<std::string> types() const {
    std::vector<std::string> all;
    const onnx::ModelProto m = read();
    for (const auto& n : m.graph().node()) all.push_back(n.op_type());
    return all;
  }

  void refuses(const std::string& what, const model_function& model, const std::string& says,
               const model_card& card = card_of_rows()) const {
    expect_refused({what, [&] { write_onnx(path_, model, drawn_weights(model, card)); }, says});
    EXPECT_FALSE(std::filesystem::exists(path_));
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "m.onnx";
};

TEST_F(OnnxFile, SaysItsVersionsAndItsModelAndLeavesTheSizeOfTheBatchOpen) {
  model_card card = card_of_rows();
  card.class_names = {"a", "b", "c<&>"};
  write_onnx(path_, drawn_weights(card));
  const onnx::ModelProto m = read();
  EXPECT_EQ(m.ir_version(), 8);
  ASSERT_EQ(m.opset_import_size(), 1);
  EXPECT_EQ(m.opset_import(0).version(), 17);
  EXPECT_EQ(m.producer_name(), "mailgrad");
  ASSERT_EQ(m.metadata_props_size(), 1);
  EXPECT_EQ(m.metadata_props(0).key(), "mailgrad");
  EXPECT_EQ(m.metadata_props(0).value(), to_json(card));
  ASSERT_EQ(m.graph().input_size(), 1) << "labels are not read";
  const auto& input = m.graph().input(0);
  EXPECT_EQ(input.name(), "features");
  EXPECT_EQ(input.type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(input.type().tensor_type().shape().dim(1).dim_value(), 4);
  const auto& output = m.graph().output(0);
  EXPECT_EQ(output.name(), "logits");
  EXPECT_EQ(output.type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(output.type().tensor_type().shape().dim(1).dim_value(), 3);
}

TEST_F(OnnxFile, HoldsTheWeightsByTheirNames) {
  const saved_weights trained = drawn_weights(card_of_rows());
  write_onnx(path_, trained);
  std::size_t found = 0;
  const onnx::ModelProto m = read();
  for (const auto& array : m.graph().initializer())
    if (const auto* const variable = trained.find(array.name())) {
      const std::span<const float> values = variable->values.values();
      EXPECT_EQ(array.raw_data(),
                std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
      EXPECT_EQ(static_cast<std::size_t>(array.dims_size()), variable->values.dims().rank());
      ++found;
    }
  EXPECT_EQ(found, trained.variables.size());
}

TEST_F(OnnxFile, DividesWhatFilesHold) {
  model_card card = card_of_rows("softmax");
  write_onnx(path_, drawn_weights(card));
  EXPECT_THAT(types(), ElementsAre("MatMul", "Add", "Identity"));
  for (const auto& by : {std::vector<float>{255}, std::vector<float>{1, 2, 3, 4}}) {
    card.divisors = by;
    write_onnx(path_, drawn_weights(card));
    EXPECT_THAT(types(), ElementsAre("Div", "MatMul", "Add", "Identity"));
  }
  card.divisors = {1, 2};
  expect_refused({"divisors of others", [&] { write_onnx(path_, drawn_weights(card)); },
                  "'drawn.safetensors' cannot be written as ONNX: its card has 2 divisors for samples of 4"});
  EXPECT_THAT(types(), ElementsAre("Div", "MatMul", "Add", "Identity")) << "the older file stays";
}

model_outputs outputs_of(graph& g, const model_request& r, const value& logits) {
  return {logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
}

value features_of(graph& g, const model_request& r) {
  return g.input("features", {r.batch, r.sample_dims[0]});
}

TEST_F(OnnxFile, NamesAnOperationThatCannotBeWritten) {
  refuses(
      "dropout that is always on",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, dense(dropout(features_of(g, r), 0.5F, 1), 3, "out"));
      },
      "'drawn.safetensors' cannot be written as ONNX: operation 'dropout' (weights_file_test.cpp:");
  model_card sparse = card_of_rows("softmax");
  sparse.request.nonzeros = 1;
  refuses("sparse rows", find_model("softmax"), "operation 'sparse_matmul' (", sparse);
}

TEST_F(OnnxFile, RefusesWhatDependsOnTheSizeOfTheBatch) {
  refuses(
      "a constant",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, dense(features_of(g, r), 3, "out") * (1 / static_cast<float>(r.batch)));
      },
      "a constant of it depends on the batch (weights_file_test.cpp:");
  refuses(
      "an attribute",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, slice(dense(features_of(g, r), 3, "out"), 0, 0, r.batch));
      },
      "operation 'slice' (weights_file_test.cpp:");
  refuses(
      "the number of nodes",
      [](graph& g, const model_request& r) {
        value x = dense(features_of(g, r), 3, "out");
        for (std::size_t i = 0; i < r.batch; ++i) x = x + 1;
        return outputs_of(g, r, x);
      },
      "its nodes depend on the batch");
}

TEST_F(OnnxFile, RefusesWeightsThatAreNotThoseOfTheModel) {
  saved_weights trained = drawn_weights(card_of_rows());
  trained.variables.pop_back();
  expect_refused({"one is missing", [&] { write_onnx(path_, trained); }, "is not in the file"});
  trained.card->model.clear();
  expect_refused({"a model function", [&] { write_onnx(path_, trained); }, "the program has to bring it"});
  trained.card.reset();
  expect_refused({"no card", [&] { write_onnx(path_, trained); }, "tell nothing of their model"});
  expect_refused({"no folder",
                  [&] { write_onnx(folder_.path() / "absent" / "m.onnx", drawn_weights(card_of_rows())); },
                  "m.onnx: cannot be written: No such file or directory"});
  saved_weights huge{"huge.safetensors", {}};
  huge.card = card_of_rows("mlp:hidden=200000x3000"); // protocol buffers count in 31 bits
  expect_refused({"2.4 GB", [&] { write_onnx(path_, huge); }, "weights of 'huge.safetensors' are 601012"});
}

/// The numbers of the first samples, as a file has them.
std::vector<float> raw(const data_split& data, std::size_t count, float divisor) {
  const auto& features = std::get<float_features>(data.test.features()).values;
  std::vector<float> numbers(features.begin(), features.begin() + static_cast<std::ptrdiff_t>(count * 4));
  for (float& v : numbers) v *= divisor;
  return numbers;
}

TEST(Predictor, AnswersAsAnEvaluationDoesWhateverTheNumberOfSamples) {
  const auto data = small_data();
  predictor p(small_model(), drawn_weights(small_model(), *data));
  EXPECT_EQ(p.inputs(), 4U);
  EXPECT_EQ(p.outputs(), 3U);
  const std::vector<float> expected = p.answers(data->test);
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, data->test.size()}) {
    std::vector<float> found(count * 3);
    p.answers(raw(*data, count, 1), found);
    // Which order of additions is fastest depends on their number where the processor has no AVX.
    EXPECT_THAT(found, Pointwise(FloatNear(1e-6F), std::span(expected).first(count * 3)));
  }
  const data_split many{testing::small_samples(60, 1), testing::small_samples(700, 2), "many", {}};
  std::vector<float> found(700 * 3); // which are more than one program answers
  p.answers(raw(many, 700, 1), found);
  EXPECT_THAT(found, ElementsAreArray(p.answers(many.test)));
}

TEST(Predictor, DividesTheNumbersOfFilesAsTheCardSays) {
  const auto data = small_data();
  saved_weights trained = drawn_weights(small_model(), *data);
  predictor plain(small_model(), trained);
  std::vector<float> expected(6), found(6);
  plain.answers(raw(*data, 2, 1), expected);
  trained.card->divisors = {256};
  predictor divided(small_model(), trained);
  divided.answers(raw(*data, 2, 256), found);
  EXPECT_THAT(found, ElementsAreArray(expected)) << "powers of two are exact";
  trained.card->divisors = {2, 4, 8, 16};
  predictor by_column(small_model(), trained);
  std::vector<float> numbers = raw(*data, 2, 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= trained.card->divisors[i % 4];
  by_column.answers(numbers, found);
  EXPECT_THAT(found, ElementsAreArray(expected));
}

TEST(Predictor, BuildsTheModelOfTheCard) {
  const auto data = small_data();
  const std::string layers = R"({"layers":[{"dense":{"units":8,"activation":"tanh"}},{"dense":{}}]})";
  predictor p(drawn_weights(small_model(), *data, layers));
  predictor own(small_model(), drawn_weights(small_model(), *data));
  EXPECT_THAT(p.answers(data->test), ElementsAreArray(own.answers(data->test)));
  EXPECT_EQ(p.test(data->test).accuracy, own.test(data->test).accuracy);
}

TEST(Predictor, GivesProbabilitiesThatAddUpToOne) {
  const auto data = small_data();
  predictor p(small_model(), drawn_weights(small_model(), *data));
  std::vector<float> chances(9), logits(9);
  p.probabilities(raw(*data, 3, 1), chances);
  p.answers(raw(*data, 3, 1), logits);
  for (std::size_t row = 0; row < 3; ++row) {
    const std::span part = std::span(chances).subspan(row * 3, 3);
    EXPECT_NEAR(std::accumulate(part.begin(), part.end(), 0.0), 1, 1e-6);
    EXPECT_NEAR(part[0] / part[1], std::exp(logits[row * 3] - logits[row * 3 + 1]), 1e-4);
  }
  std::vector<float> large{1000, 1000, -1000};
  softmax_rows(large, 3);
  EXPECT_THAT(large, ElementsAre(0.5F, 0.5F, 0)) << "without an overflow";
}

TEST(Predictor, CountsWhichClassIsTakenForWhich) {
  const auto data = small_data();
  predictor p(small_model(), drawn_weights(small_model(), *data));
  const evaluation e = p.test(data->test);
  ASSERT_EQ(e.confusion.size(), 9U);
  EXPECT_EQ(std::accumulate(e.confusion.begin(), e.confusion.end(), std::uint64_t{0}), data->test.size());
  const std::uint64_t correct = e.confusion[0] + e.confusion[4] + e.confusion[8];
  EXPECT_DOUBLE_EQ(e.accuracy.value(), static_cast<double>(correct) / static_cast<double>(data->test.size()));
  for (std::size_t label = 0; label < 3; ++label)
    EXPECT_EQ(std::accumulate(e.confusion.begin() + static_cast<std::ptrdiff_t>(3 * label),
                              e.confusion.begin() + static_cast<std::ptrdiff_t>(3 * label + 3),
                              std::uint64_t{0}),
              static_cast<std::uint64_t>(
                  std::ranges::count(data->test.labels(), static_cast<std::int32_t>(label))));
}

TEST(Predictor, RefusesWhatItCannotAnswer) {
  const auto data = small_data();
  saved_weights trained = drawn_weights(small_model(), *data, "softmax");
  predictor p(small_model(), trained);
  std::vector<float> numbers(8), answers(6);
  saved_weights foreign = drawn_weights(small_model(), *data);
  foreign.card.reset();
  saved_weights own = drawn_weights(small_model(), *data);
  own.card->model.clear();
  expect_refused({
      {"half a sample", [&] { p.answers(std::span(numbers).first(6), answers); },
       "6 numbers, where a sample has 4"},
      {"no room", [&] { p.answers(numbers, std::span(answers).first(3)); },
       "room for 3 numbers, where the answers have 6"},
      {"no card", [&] { predictor{foreign}; }, "'drawn.safetensors' tell nothing of their model"},
      {"no model", [&] { predictor{own}; }, "the program has to bring it"},
      {"another model", [&] { predictor{trained}; },
       "'dense1/weights' is 4x8 in the file, and 4x3 in the model"},
  });
  predictor sparse(small_model(), drawn_weights(small_model(), *testing::sparse_data()));
  EXPECT_EQ(sparse.inputs(), 0U);
  expect_refused({{"sparse rows", [&] { sparse.answers(numbers, answers); }, "does not read plain numbers"}});
}

} // namespace
} // namespace mailgrad
