#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include <functional>

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using testing::expect_refused;
using ::testing::IsEmpty;

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
  data_split data = *testing::small_data();
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
  data_split data = *testing::small_data();
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

} // namespace
} // namespace mailgrad
