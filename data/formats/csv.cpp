#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/options/number.hpp>

#include <cmath>

namespace mailgrad {

namespace {

/// What to do about a field that is not what its column holds.
std::string_view hint_on(const table_column& column, std::string_view field) {
  if (column.kind == column_kind::number && field.find_first_of(".,") != std::string_view::npos &&
      readings_of(field).any())
    return "; --decimal (csv_options::decimal) says which sign begins a fraction";
  if (column.kind == column_kind::number && is_word_for_nothing(field))
    return "; --missing (csv_options::missing) takes rows without a value, and such a value is an empty "
           "field";
  const bool is_number_among_words =
      column.kind == column_kind::category && column.categories.empty() && readings_of(field).any();
  return is_number_among_words ? "; --categories (csv_options::categories) takes numbers for words" : "";
}

class csv_reader {
public:
  csv_reader(const std::filesystem::path& file, const csv_survey& survey, label_map& labels)
      : records_(text_lines(file), survey.form), labels_(labels),
        has_header_(survey.header_is_record), rows_{{}, {}, {}, survey.layout} {}

  csv_rows parse() {
    labels_.read_by(rows_.layout.table.label_signs);
    if (has_header_) records_.next();
    while (records_.next()) add();
    if (answers() == 0)
      throw_malformed(
          records_.file(),
          fmt::format("expected a row without missing values, found none among {}", rows_.dropped));
    return finished();
  }

private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw_malformed(records_.file(), records_.number(), why);
  }
  std::string_view field(std::size_t column) const { return records_.fields()[column]; }

  void add() {
    const csv_options& layout = rows_.layout;
    if (records_.fields().size() != layout.columns)
      refuse(fmt::format("expected {} columns, found {}", layout.columns, records_.fields().size()));
    const std::size_t before = values_.size();
    const std::size_t label = layout.table.label;
    const bool labelled = layout.answers == csv_answers::passed_over || !is_missing(field(label));
    if (!labelled) ++rows_.missing;
    const bool whole = add_features();
    if (layout.table.missing == missing_values::drop && !(whole && labelled)) {
      values_.resize(before);
      ++rows_.dropped;
      return;
    }
    add_label(label);
    layout.limit.require(records_.file(), sizeof(float) * (values_.size() + answers()));
  }

  /// Returns whether no value is missing.
  bool add_features() {
    const table_layout& table = rows_.layout.table;
    bool whole = true;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].kind == column_kind::left_out) continue;
      const std::size_t column = i + (i >= table.label ? 1 : 0);
      const std::optional<float> number = numbers_.read(i, field(column));
      if (!number) fail(numbers_.expected(i), column, hint_on(table.columns[i], field(column)));
      if (std::isnan(*number)) {
        whole = false;
        ++rows_.missing;
      }
      if (!whole && table.missing == missing_values::refuse)
        fail(numbers_.expected(i), column,
             "; --missing drop or mean (csv_options::missing) takes rows without a value");
      values_.push_back(*number);
    }
    return whole;
  }

  void add_label(std::size_t column) {
    if (rows_.layout.answers == csv_answers::passed_over) {
      if (rows_.layout.holds == label_kind::numbers)
        rows_.targets.push_back(0);
      else
        rows_.labels.push_back(0);
      return;
    }
    const std::string_view text = field(column);
    const bool missing = is_missing(text);
    constexpr std::string_view hint =
        "; --missing drop (csv_options::missing) leaves out rows without a label";
    if (rows_.layout.holds == label_kind::numbers) {
      const auto number = spelled_number(text, rows_.layout.table.label_signs);
      if (missing || !number || !fits_float(*number)) fail("a finite number", column, missing ? hint : "");
      rows_.targets.push_back(static_cast<float>(*number));
      return;
    }
    const auto label = missing ? std::nullopt : labels_.find(text);
    const bool is_number = spelled_number(text, rows_.layout.table.label_signs).has_value();
    if (!label)
      refuse(fmt::format("expected {}, found {}{}", labels_.expected(), in_quotes(text),
                         missing     ? hint
                         : is_number ? "; a number to predict is a task of regression"
                                     : ""));
    rows_.labels.push_back(*label);
  }
  [[noreturn]] void fail(const std::string& expected, std::size_t column, std::string_view hint = {}) const {
    refuse(fmt::format("expected {} in column {}, found {}{}", expected, column + 1, in_quotes(field(column)),
                       hint));
  }

  csv_rows finished() {
    table_layout& table = rows_.layout.table;
    rows_.comments = records_.comments_below();
    numbers_.settle(values_);
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      if (table.columns[i].kind == column_kind::unknown || table.columns[i].kind == column_kind::category)
        if (table.columns[i].categories.empty())
          throw_malformed(records_.file(), fmt::format("expected a value in column {}, found none in any row",
                                                       i + (i >= table.label ? 2 : 1)));
    if (!table.is_plain())
      rows_.layout.limit.require(records_.file(), sizeof(float) * (answers() * table.width() + answers()));
    rows_.features = {{table.width()}, expand(table, std::move(values_))};
    return std::move(rows_);
  }

  std::size_t answers() const { return rows_.labels.size() + rows_.targets.size(); }

  csv_records records_;
  label_map& labels_;
  bool has_header_;
  csv_rows rows_;
  field_numbers numbers_{rows_.layout.table};
  std::vector<float> values_; ///< a number for each field that is a feature
};

} // namespace

csv_rows read_surveyed_csv(const std::filesystem::path& file, const csv_survey& survey, label_map& labels) {
  csv_rows rows = csv_reader{file, survey, labels}.parse();
  if (labels.is_open() && survey.layout.holds == label_kind::classes) labels.settle(rows.labels);
  return rows;
}

csv_rows read_csv(const std::filesystem::path& file, const csv_options& options, label_map& labels) {
  return read_surveyed_csv(file, survey_csv(file, options), labels);
}

} // namespace mailgrad
