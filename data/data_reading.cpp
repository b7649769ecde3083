#include <mailgrad/data/data_reading.hpp>

#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/data/formats/sniff.hpp>
#include <mailgrad/data/row_split.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace mailgrad {

namespace {

std::string format_in_words(file_format format) {
  constexpr std::array<const char*, 10> words{"",     "IDX",     "CIFAR", "CSV", "libsvm",
                                              "text", "ratings", "npz",   "npy", "pictures"};
  return words[static_cast<std::size_t>(format)];
}

bool has_test_arrays(const data_files& files) {
  if (files.format != file_format::npz) return false;
  const npz_file archive(files.train.front(), {"x_test", "X_test"});
  return archive.find("x_test") != nullptr || archive.find("X_test") != nullptr;
}

/// "0.2 of the file, drawn from each class in proportion"
std::string test_in_words(const data_split& data, const data_files& files, const open_options& options) {
  if (!files.test.empty()) return files.test.filename().string();
  if (has_test_arrays(files)) return "x_test of the file";
  if (options.known) return "all of the file";
  const bool text = files.format == file_format::text;
  const double part =
      1 - options.files.train_fraction.value_or(text ? usual_text_fraction : usual_training_fraction);
  if (text) return fmt::format("the last {:.4g} of the text", part);
  if (files.format == file_format::ratings && options.ratings.order == rating_order::by_time)
    return fmt::format("the latest {:.4g} of the file", part);
  return fmt::format("{:.4g} of the file, drawn{}", part,
                     data.train.has_targets() ? "" : " from each class in proportion");
}

/// Classes of samples whose labels nobody has looked at are not counted.
void count_classes(data_reading& r, const data_split& data, const dataset& samples, csv_answers answers) {
  r.classes = samples.classes();
  if (samples.labels().empty() || (r.table && answers == csv_answers::passed_over)) return;
  std::vector<std::size_t> counts(r.classes);
  for (const std::int32_t label : samples.labels()) ++counts[static_cast<std::size_t>(label)];
  const auto named = [&](auto at) {
    const auto label = static_cast<std::size_t>(at - counts.begin());
    return class_size{label < data.class_names.size() ? data.class_names[label] : std::to_string(label), *at};
  };
  r.smallest = named(std::ranges::min_element(counts));
  r.largest = named(std::ranges::max_element(counts));
}

} // namespace

data_reading reading_of(const data_split& data, const data_files& files, const open_options& options,
                        data_reading noted) {
  data_reading r = std::move(noted);
  const dataset& samples = options.known ? data.test : data.train;
  r.format = format_in_words(files.format);
  r.dims = samples.sample_dims();
  r.inputs = samples.sample_dims().size() + samples.category_counts().size();
  r.train = data.train.size();
  r.validation = data.validation.size();
  r.test = data.test.size();
  r.test_why = test_in_words(data, files, options);
  r.task = samples.labelled_with();
  if (r.task_why.empty())
    r.task_why = options.known ? "as in training" : options.task ? "--task says so" : "as such files have it";
  if (!samples.has_targets()) count_classes(r, data, samples, options.csv.answers);
  return r;
}

namespace fs = std::filesystem;

namespace {

using row_numbers = std::span<const std::size_t>;

std::size_t count(const csv_rows& rows) { return std::max(rows.labels.size(), rows.targets.size()); }

/// The mean of each number of a sample over these rows, without those that have none.
std::vector<float> means_of(const fs::path& file, const csv_rows& all, row_numbers rows) {
  const std::size_t width = all.features.dims.size();
  std::vector<double> sums(width);
  std::vector<std::size_t> found(width);
  for (const std::size_t row : rows)
    for (std::size_t i = 0; i < width; ++i)
      if (const float value = all.features.values[row * width + i]; !std::isnan(value)) {
        sums[i] += value;
        ++found[i];
      }
  std::vector<float> means;
  for (std::size_t i = 0; i < width; ++i) {
    if (found[i] == 0)
      throw_malformed(file,
                      "expected values to take the mean of, found a column without one in the training part");
    means.push_back(static_cast<float>(sums[i] / static_cast<double>(found[i])));
  }
  return means;
}

void fill(float_features& f, const std::vector<float>& means) {
  for (std::size_t i = 0; i < f.values.size(); ++i)
    if (std::isnan(f.values[i])) f.values[i] = means[i % means.size()];
}

/// Returns the divisor of each number of a sample, computed from the training rows alone. Numbers that say
///         whether a row is of a category stay as they are.
std::vector<float> divisors(const csv_rows& all, row_numbers rows, feature_scale scale) {
  const std::size_t width = all.features.dims.size();
  std::vector<bool> divided;
  for (const table_column& c : all.layout.table.columns)
    divided.insert(divided.end(), c.width(), c.kind == column_kind::number);
  std::vector<float> largest(width);
  for (const std::size_t row : rows)
    for (std::size_t i = 0; i < width; ++i)
      if (divided[i]) largest[i] = std::max(largest[i], std::abs(all.features.values[row * width + i]));
  if (scale == feature_scale::maximum) std::ranges::fill(largest, std::ranges::max(largest));
  for (std::size_t i = 0; i < width; ++i)
    if (!divided[i]) largest[i] = 1;
  std::ranges::replace(largest, 0.0F, 1.0F);
  return largest;
}

/// What the features are divided by; empty: nothing.
std::vector<float> divisors_for(const csv_rows& all, row_numbers rows, const open_options& options) {
  if (options.known) return options.known->divisors;
  return options.scale == feature_scale::none ? std::vector<float>() : divisors(all, rows, options.scale);
}

void divide(float_features& f, const std::vector<float>& by) {
  for (std::size_t i = 0; i < f.values.size(); ++i) f.values[i] /= by[i % by.size()];
}

dataset join(csv_rows rows, const label_map& labels) {
  if (rows.layout.holds == label_kind::numbers) return {std::move(rows.features), std::move(rows.targets)};
  return {std::move(rows.features), std::move(rows.labels), labels.classes()};
}

void require_divisors(const fs::path& file, const std::vector<float>& by, std::size_t columns) {
  if (by.size() > 1 && by.size() != columns)
    throw_malformed(file, fmt::format("expected {} numbers a row, as the model was trained on, found {}",
                                      by.size(), columns));
}

void require_two_rows(const fs::path& file, std::size_t rows) {
  if (rows < 2)
    throw_malformed(file, fmt::format("expected two rows or more to cut off a test set, found {}", rows));
}

row_split split_of(const fs::path& file, std::size_t rows, std::span<const std::int32_t> labels,
                   const open_options& options) {
  require_two_rows(file, rows);
  const double train = options.files.train_fraction.value_or(usual_training_fraction);
  return draw_split(rows, labels, 1 - train, options.seed);
}

/// The rows for training of a file that is cut, or all rows of one that is not.
row_split split_of(const fs::path& file, const csv_rows& all, bool cuts, const open_options& options) {
  if (cuts) return split_of(file, count(all), all.labels, options);
  row_split whole{std::vector<std::size_t>(count(all)), {}};
  std::iota(whole.train.begin(), whole.train.end(), std::size_t{0});
  return whole;
}

csv_options layout_for(const open_options& options) {
  csv_options layout = options.csv;
  layout.holds = options.task.value_or(layout.holds);
  layout.limit = options.limit;
  if (options.known) layout.table = options.known->table;
  return layout;
}

void remark_dropped(const fs::path& file, const csv_rows& rows, data_split& split) {
  if (rows.dropped == 0) return;
  const char* const what = rows.dropped == 1 ? "has missing values and was" : "have missing values and were";
  split.remarks.push_back(fmt::format("{}: {} of {} rows {} left out", file.filename().string(), rows.dropped,
                                      rows.dropped + count(rows), what));
}

/// "." or ",", or ". and ,"; `of` tells a column its sign.
template <class Sign>
std::string signs_of(const table_layout& table, const Sign& of) {
  std::string all;
  for (const table_column& c : table.columns) {
    const char sign = c.kind == column_kind::number ? of(c.signs) : '\0';
    if (sign == 0 || all.find(sign) != std::string::npos) continue;
    all += (all.empty() ? "" : " and ") + std::string(1, sign);
  }
  return all;
}

table_reading reading_of(const csv_survey& survey, const csv_rows& train, const csv_rows& test) {
  const table_layout& table = train.layout.table;
  table_reading r;
  r.encoding = survey.encoding;
  r.delimiter = survey.layout.delimiter;
  r.decimal = signs_of(table, [](number_signs s) { return s.decimal; });
  r.thousands = signs_of(table, [](number_signs s) {
    return !s.grouped ? '\0' : s.decimal == '.' ? ',' : '.';
  });
  r.header = survey.header_is_record || !survey.label_name.empty();
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const table_column& c = table.columns[i];
    ++(c.kind == column_kind::left_out   ? r.left_out
       : c.kind == column_kind::category ? r.categories
                                         : r.numbers);
    if (c.kind == column_kind::left_out)
      r.names_left_out.push_back(c.name.empty() ? fmt::format("{}", i + (i >= table.label ? 2 : 1)) : c.name);
  }
  r.label_column = table.label + 1;
  r.label_name = survey.label_name;
  r.label_why = survey.label_why;
  r.missing = train.missing + test.missing;
  r.dropped = train.dropped + test.dropped;
  r.became = table.missing;
  r.comments = train.comments + test.comments;
  return r;
}

/// "rose" for " Rose": blanks, capitals and blanks that do not break a line do not matter.
std::string loosely(std::string_view name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i)
    if (name.substr(i).starts_with("\xc2\xa0"))
      ++i;
    else if (name[i] != ' ')
      plain += name[i];
  return in_small_letters(plain);
}

/// Says so if two classes differ in blanks or capitals alone.
void remark_alike(const fs::path& file, const std::vector<std::string>& classes, data_split& split) {
  std::map<std::string, const std::string*> known;
  for (const std::string& name : classes)
    if (const auto [other, is_new] = known.emplace(loosely(name), &name); !is_new)
      split.remarks.push_back(fmt::format("{}: the classes {} and {} differ in blanks or capitals alone",
                                          file.filename().string(), in_quotes(*other->second),
                                          in_quotes(name)));
}

/// Finds out what the file holds. What a trained model knows, or the user says, is not asked again.
csv_survey survey_for(const fs::path& file, const open_options& options) {
  csv_survey survey = survey_csv(file, layout_for(options));
  if (!options.known) settle_task(survey, file, options.task);
  return survey;
}

} // namespace

data_split cut(const fs::path& file, dataset all, const open_options& options) {
  if (options.known) return {{}, std::move(all), {}, {}};
  const row_split rows = split_of(file, all.size(), all.labels(), options);
  return {take_rows(all, rows.train), take_rows(all, rows.test), {}, {}};
}

label_map labels_for(const open_options& options, label_spelling spelling) {
  if (options.known && !options.known->class_names.empty())
    return label_map(options.known->class_names, spelling, options.known->table.label_signs);
  return label_map(options.classes, spelling);
}

data_split open_csv(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  label_map labels = labels_for(options);
  const csv_survey survey = survey_for(file, options);
  csv_rows train = read_surveyed_csv(file, survey, labels);
  const bool whole = files.test.empty();
  const row_split rows = split_of(file, train, whole && !options.known, options);
  table_layout& table = train.layout.table;
  if (table.missing == missing_values::mean && table.means.empty()) {
    table.means = means_of(file, train, rows.train);
    fill(train.features, table.means);
  }
  std::vector<float> by = divisors_for(train, rows.train, options);
  require_divisors(file, by, train.features.dims.size());
  csv_rows test = whole ? csv_rows{} : read_csv(files.test, train.layout, labels);
  if (!by.empty()) {
    divide(train.features, by);
    divide(test.features, by);
  }
  data_split split;
  remark_dropped(file, train, split);
  if (!whole) remark_dropped(files.test, test, split);
  std::ranges::copy(survey.remarks, std::back_inserter(split.remarks));
  data_reading noted;
  noted.table = reading_of(survey, train, test);
  noted.task_why = survey.task_why;
  split.reading = std::make_shared<const data_reading>(std::move(noted));
  split.table = train.layout.table;
  dataset first = join(std::move(train), labels);
  if (!whole)
    split.test = join(std::move(test), labels);
  else if (!options.known)
    split.test = take_rows(first, rows.test);
  if (whole && !options.known) first = take_rows(first, rows.train);
  (whole && options.known ? split.test : split.train) = std::move(first);
  split.class_names = labels.names();
  if (!options.known) remark_alike(file, split.class_names, split);
  split.divisors = std::move(by);
  return split;
}

} // namespace mailgrad
