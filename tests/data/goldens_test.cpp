#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>
#include <fstream>
#include <type_traits>

namespace mailgrad {
namespace {

using nlohmann::json;
using namespace ::testing;

// Files of every format beside what the programs read from them that most people use: pandas, Pillow, NumPy,
// scikit-learn. Each JSON file in goldens/ is made by the script beside it, whose first lines say what it
// holds.

/// The bytes of a file in a golden, which are written in base64.
std::string bytes_in(const json& base64) {
  const auto& text = base64.get_ref<const std::string&>();
  std::string bytes(text.size(), '\0');
  const auto in = reinterpret_cast<const unsigned char*>(text.data());
  const int count =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), in, static_cast<int>(text.size()));
  const auto padding = static_cast<std::size_t>(std::ranges::count(text, '='));
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count) - padding);
  return bytes;
}

/// Tries each case of a file, and says by its name which one fails.
template <class Try>
void try_goldens(const std::string& name, std::size_t least, Try try_case) {
  std::ifstream file(std::string(MAILGRAD_GOLDENS) + "/" + name + ".json");
  ASSERT_TRUE(file) << name;
  const json cases = json::parse(file).at("cases");
  EXPECT_GE(cases.size(), least);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    EXPECT_NO_THROW(try_case(golden));
  }
}

void expect_pixels(picture_file picture, const json& golden, const char* colours, std::size_t channels) {
  const std::string expected = bytes_in(golden.at(colours));
  std::vector<std::uint8_t> pixels(picture.width() * picture.height() * channels);
  ASSERT_EQ(pixels.size(), expected.size());
  picture.read(pixels, channels);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reinterpret_cast<const char*>(pixels.data())))
      << colours;
}

TEST(Goldens, OfPicturesAreReadAsByPillow) {
  const scratch_folder folder;
  try_goldens("pictures", 130, [&](const json& golden) {
    const auto file = folder.write("x", bytes_in(golden.at("file")));
    if (golden.contains("refusal")) {
      const std::string why = complaint([&] {
        picture_file picture(file);
        std::vector<std::uint8_t> pixels(picture.width() * picture.height());
        picture.read(pixels, 1);
      });
      EXPECT_THAT(why, StartsWith(golden.at("refusal")));
      return;
    }
    const picture_file picture(file);
    EXPECT_EQ(picture.width(), golden.at("width"));
    EXPECT_EQ(picture.height(), golden.at("height"));
    EXPECT_EQ(picture.has_colours(), golden.at("colours"));
    expect_pixels(picture_file(file), golden, "rgb", 3);
    expect_pixels(picture_file(file), golden, "grey", 1);
  });
}

std::vector<float> dense(const sparse_features& f) {
  std::vector<float> numbers((f.offsets.size() - 1) * f.width);
  for (std::size_t row = 0; row + 1 < f.offsets.size(); ++row)
    for (std::size_t i = f.offsets[row]; i < f.offsets[row + 1]; ++i)
      numbers[row * f.width + static_cast<std::size_t>(f.columns[i])] = f.values[i];
  return numbers;
}

/// A part of a data set as its golden has it. Bytes are not scaled.
json as_golden(const dataset& part) {
  const shape& dims = part.sample_dims();
  json found{{"dims", std::vector<std::size_t>(dims.begin(), dims.end())}};
  std::visit(
      [&]<class Features>(const Features& f) {
        if constexpr (std::is_same_v<Features, sparse_features>)
          found["numbers"] = dense(f);
        else if constexpr (requires { f.dims; })
          found["numbers"] = f.values;
      },
      part.features());
  if (part.has_targets())
    found["targets"] = part.targets();
  else
    found["labels"] = part.labels();
  return found;
}

open_options options_in(const json& golden) {
  open_options o;
  const json given = golden.value("options", json::object());
  if (given.contains("task"))
    o.task = given.at("task") == "numbers" ? label_kind::numbers : label_kind::classes;
  o.features = given.value("features", 0);
  if (given.contains("record_dims"))
    o.record_dims = shape(given.at("record_dims").get<std::vector<std::size_t>>());
  return o;
}

/// Names of classes as the programs tell them, to whom "+1" is the number 1.
json as_values(const json& names) {
  json values;
  for (const std::string name : names) {
    const auto number = parse_number(name);
    values.push_back(number ? json(*number) : json(name));
  }
  return values;
}

/// Opens the files of a golden as a data set.
void try_data(const json& golden) {
  const scratch_folder folder;
  for (const auto& [name, bytes] : golden.at("files").items()) folder.write(name, bytes_in(bytes));
  const std::string path = (folder.path() / golden.value("open", "")).string();
  const open_options options = options_in(golden);
  if (golden.contains("refusal")) {
    EXPECT_THAT(complaint([&] { open_data(path, options); }), StartsWith(golden.at("refusal")));
    return;
  }
  const data_split split = open_data(path, options);
  EXPECT_EQ(as_golden(split.train), golden.at("train"));
  EXPECT_EQ(as_golden(split.test), golden.at("test"));
  EXPECT_EQ(as_values(split.class_names), as_values(golden.value("class_names", json(split.class_names))));
}

TEST(Goldens, OfArraysAreReadAsByNumPy) { try_goldens("npz", 60, try_data); }

TEST(Goldens, OfLibsvmAreReadAsByScikitLearn) { try_goldens("libsvm", 30, try_data); }

TEST(Goldens, OfIdxAreReadAsItsDocumentSays) { try_goldens("idx", 15, try_data); }

TEST(Goldens, OfCifarAreReadAsItsDocumentSays) { try_goldens("cifar", 10, try_data); }

csv_options csv_options_in(const json& given) {
  csv_options o;
  const std::string label = given.value("label", "");
  if (label == "first" || label == "last")
    o.label = label == "first" ? csv_label::first : csv_label::last;
  else if (!label.empty())
    o.label = csv_label::named;
  o.label_column = label;
  if (given.contains("header"))
    o.header = given["header"] == "yes" ? csv_header::present : csv_header::absent;
  if (given.contains("delimiter")) o.delimiter = given["delimiter"].get<std::string>().front();
  if (given.contains("missing"))
    o.missing = given["missing"] == "drop" ? missing_values::drop : missing_values::mean;
  o.categories = given.value("categories", std::vector<std::string>());
  o.left_out = given.value("left_out", std::vector<std::string>());
  return o;
}

/// What is read in a file, as open_data() reads it.
struct read_file {
  csv_rows rows;
  std::vector<std::string> classes, remarks;
};

read_file read_golden(const json& file, const json& given) {
  const scratch_folder folder;
  const auto path = folder.write("x.csv", file.contains("text") ? file["text"].get<std::string>()
                                                                : bytes_in(file["base64"]));
  csv_survey survey = survey_csv(path, csv_options_in(given));
  std::optional<label_kind> task;
  if (given.contains("task")) task = given["task"] == "classes" ? label_kind::classes : label_kind::numbers;
  settle_task(survey, path, task);
  label_map labels;
  csv_rows rows = read_surveyed_csv(path, survey, labels);
  return {std::move(rows), labels.names(), survey.remarks};
}

/// The columns that are learnt from, in the form of the goldens.
json columns_of(const csv_rows& rows, std::size_t count) {
  const std::size_t width = rows.features.dims.size();
  json columns = json::array();
  std::size_t at = 0;
  for (const table_column& c : rows.layout.table.columns) {
    if (c.kind == column_kind::left_out) continue;
    json values = json::array();
    for (std::size_t row = 0; row < count; ++row) {
      const float* const first = rows.features.values.data() + row * width + at;
      if (c.kind == column_kind::category)
        values.push_back(
            c.categories.at(static_cast<std::size_t>(std::find(first, first + c.width(), 1.0F) - first)));
      else
        values.push_back(*first);
    }
    at += c.width();
    columns.push_back({{c.kind == column_kind::category ? "words" : "numbers", std::move(values)}});
  }
  return columns;
}

/// The same numbers as float32.
json as_floats(json columns) {
  for (json& column : columns)
    if (column.contains("numbers"))
      for (json& value : column["numbers"]) value = value.get<float>();
  return columns;
}

json labels_of(const read_file& found) {
  json labels = json::array();
  for (const std::int32_t label : found.rows.labels)
    labels.push_back(found.classes.at(static_cast<std::size_t>(label)));
  return labels;
}

void expect_as_pandas(const json& golden) {
  const read_file found = read_golden(golden["file"], golden["options"]);
  EXPECT_EQ(found.rows.layout.table.label, golden["label"].get<std::size_t>());
  const bool numbers = golden.contains("targets");
  ASSERT_EQ(found.rows.layout.holds, numbers ? label_kind::numbers : label_kind::classes);
  EXPECT_TRUE(numbers ? found.rows.labels.empty() : found.rows.targets.empty());
  if (numbers)
    EXPECT_EQ(json(found.rows.targets), as_floats({{{"numbers", golden["targets"]}}})[0]["numbers"]);
  else
    EXPECT_EQ(labels_of(found), golden["labels"]);
  EXPECT_EQ(columns_of(found.rows, (numbers ? golden["targets"] : golden["labels"]).size()),
            as_floats(golden["columns"]));
  if (golden.contains("remark"))
    EXPECT_THAT(found.remarks, Contains(HasSubstr(golden["remark"].get<std::string>())));
  else
    EXPECT_THAT(found.remarks, IsEmpty());
}

TEST(CsvGoldens, AreReadAsPandasReadsThem) {
  try_goldens("csv", 200, [](const json& golden) {
    if (!golden.contains("refused")) return expect_as_pandas(golden);
    EXPECT_THAT(complaint([&] { read_golden(golden["file"], golden["options"]); }),
                StartsWith(golden["refused"].get<std::string>()));
  });
}

} // namespace
} // namespace mailgrad
