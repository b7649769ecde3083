#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>

#include <mailgrad/tests/data/golden_bytes.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

// goldens/csv.json holds small CSV files with what pandas reads in them; goldens/make_csv.py has written it.

namespace mailgrad {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

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
  std::vector<std::string> classes;
  std::vector<std::string> remarks;
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
  read_file found{read_surveyed_csv(path, survey, labels), {}, survey.remarks};
  found.classes = labels.names();
  return found;
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
  if (numbers)
    EXPECT_EQ(json(found.rows.targets), as_floats({{{"numbers", golden["targets"]}}})[0]["numbers"]);
  else
    EXPECT_EQ(labels_of(found), golden["labels"]);
  EXPECT_EQ(columns_of(found.rows, (numbers ? golden["targets"] : golden["labels"]).size()),
            as_floats(golden["columns"]));
  if (golden.contains("remark"))
    EXPECT_THAT(found.remarks, Contains(HasSubstr(golden["remark"].get<std::string>())));
  else
    EXPECT_THAT(found.remarks, testing::IsEmpty());
}

TEST(CsvGoldens, AreReadAsPandasReadsThem) {
  const json goldens = json::parse(std::ifstream(MAILGRAD_GOLDENS "/csv.json"));
  ASSERT_GE(goldens["cases"].size(), 200U);
  for (const json& golden : goldens["cases"]) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    if (golden.contains("refused")) {
      EXPECT_THAT(complaint([&] { read_golden(golden["file"], golden["options"]); }),
                  StartsWith(golden["refused"].get<std::string>()));
      continue;
    }
    EXPECT_NO_THROW(expect_as_pandas(golden));
  }
}

} // namespace
} // namespace mailgrad
