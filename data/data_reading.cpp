#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/files/npz.hpp>

#include <array>
#include <iterator>
#include <numeric>
#include <random>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

/// Shuffles by the algorithm of Fisher and Yates. std::shuffle gives other orders with other libraries.
void shuffle_rows(std::span<std::size_t> rows, std::mt19937_64& random) {
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
}

/// How many of each class are for testing, `total` together: in proportion, and what rounding leaves to those
/// it took most from. In whole numbers, so that every processor draws the same.
std::vector<std::size_t> test_counts(const std::vector<std::size_t>& sizes, std::size_t total) {
  const std::size_t all = std::reduce(sizes.begin(), sizes.end());
  std::vector<std::size_t> counts;
  std::vector<std::size_t> rounded_off;
  for (const std::size_t size : sizes) {
    counts.push_back(size * total / all);
    rounded_off.push_back(size * total % all);
  }
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t c) { return rounded_off[c]; });
  std::size_t left = total - std::reduce(counts.begin(), counts.end());
  for (bool gave = true; left > 0 && std::exchange(gave, false);)
    for (const std::size_t c : order)
      if (left > 0 && counts[c] + 1 < sizes[c]) {
        ++counts[c];
        --left;
        gave = true;
      }
  return counts;
}

std::string name_of(const data_split& data, std::size_t label) {
  return label < data.class_names.size() ? fmt::format("'{}'", data.class_names[label])
                                         : fmt::format("{}", label);
}

std::vector<bool> classes_in(const dataset& samples, std::size_t classes) {
  std::vector<bool> found(classes);
  for (const std::int32_t label : samples.labels()) found[static_cast<std::size_t>(label)] = true;
  return found;
}

/// "'a', 'b' and 3 more"
std::string listed(const data_split& data, const std::vector<std::size_t>& classes) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, classes.size()); ++i)
    text += (i == 0 ? "" : ", ") + name_of(data, classes[i]);
  return text + (classes.size() > most ? fmt::format(" and {} more", classes.size() - most) : "");
}

void add_lacking(std::vector<std::string>& remarks, const data_split& data, const std::vector<bool>& trained,
                 const dataset& part, const char* what_for) {
  if (part.size() == 0) return;
  const std::vector<bool> found = classes_in(part, trained.size());
  std::vector<std::size_t> lacking;
  for (std::size_t c = 0; c < trained.size(); ++c)
    if (trained[c] && !found[c]) lacking.push_back(c);
  if (!lacking.empty())
    remarks.push_back(fmt::format("the {} samples to {} have none of {} of the {} classes: {}", part.size(),
                                  what_for, lacking.size(), trained.size(), listed(data, lacking)));
}

/// Adds a remark if classes have one sample, or about as many as there are classes. A few samples are a
/// trial.
void add_rare(std::vector<std::string>& remarks, const data_split& data, std::size_t classes) {
  constexpr std::size_t a_few = 10;
  std::vector<std::size_t> counts(classes), once;
  std::size_t samples = 0;
  for (const dataset* part : {&data.train, &data.test, &data.validation}) {
    samples += part->size();
    for (const std::int32_t label : part->labels()) ++counts[static_cast<std::size_t>(label)];
  }
  for (std::size_t c = 0; c < classes; ++c)
    if (counts[c] == 1) once.push_back(c);
  const auto found = classes - static_cast<std::size_t>(std::ranges::count(counts, std::size_t{0}));
  if (samples < a_few || once.empty()) return;
  if (2 * found > samples)
    remarks.push_back(fmt::format("there are {} classes for {} samples", found, samples));
  else
    remarks.push_back(fmt::format("{} of the {} classes {} one sample: {}", once.size(), found,
                                  once.size() == 1 ? "has" : "have", listed(data, once)));
}

/// "0.2 of the file, drawn from each class in proportion"
std::string format_test(const data_split& data, const data_files& files, const open_options& options) {
  if (!files.test.empty()) return files.test.filename().string();
  if (files.format == file_format::npz) {
    const npz_file archive(files.train.front(), {"x_test", "X_test"});
    if (archive.find("x_test") || archive.find("X_test")) return "x_test of the file";
  }
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

dataset join(csv_rows rows, const label_map& labels) {
  if (rows.layout.holds == label_kind::numbers) return {std::move(rows.features), std::move(rows.targets)};
  return {std::move(rows.features), std::move(rows.labels), labels.classes()};
}

row_split split_of(const fs::path& file, std::size_t rows, std::span<const std::int32_t> labels,
                   const open_options& options) {
  if (rows < 2)
    throw_malformed(file, fmt::format("expected two rows or more to cut off a test set, found {}", rows));
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

std::vector<std::string> remarks_on_dropped(const fs::path& file, const csv_rows& rows) {
  if (rows.dropped == 0) return {};
  const char* const what = rows.dropped == 1 ? "has missing values and was" : "have missing values and were";
  return {fmt::format("{}: {} of {} rows {} left out", file.filename().string(), rows.dropped,
                      rows.dropped + count(rows), what)};
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

void remark_alike(const fs::path& file, const std::vector<std::string>& classes, data_split& split) {
  std::map<std::string, const std::string*> known;
  for (const std::string& name : classes)
    if (const auto [other, is_new] = known.emplace(loosely(name), &name); !is_new)
      split.remarks.push_back(fmt::format("{}: the classes {} and {} differ in blanks or capitals alone",
                                          file.filename().string(), in_quotes(*other->second),
                                          in_quotes(name)));
}

} // namespace

row_split draw_split(std::size_t count, std::span<const std::int32_t> labels, double test_share,
                     std::uint64_t seed) {
  if (!(test_share > 0 && test_share < 1))
    throw std::invalid_argument("draw_split: the share for testing lies between 0 and 1");
  if (count < 2) throw std::invalid_argument("draw_split: one sample cannot be split");
  const std::size_t total = part_of(count, test_share);
  const std::size_t classes = labels.empty() ? 1 : static_cast<std::size_t>(std::ranges::max(labels)) + 1;
  std::vector<std::vector<std::size_t>> members(classes);
  for (std::size_t row = 0; row < count; ++row)
    members[labels.empty() ? 0 : static_cast<std::size_t>(labels[row])].push_back(row);
  std::vector<std::size_t> sizes;
  for (const auto& rows : members) sizes.push_back(rows.size());
  const std::vector<std::size_t> tests = test_counts(sizes, total);
  if (!labels.empty() && std::reduce(tests.begin(), tests.end()) == 0) // each class has one sample
    return draw_split(count, {}, test_share, seed);
  std::mt19937_64 random(seed);
  row_split split;
  for (std::size_t c = 0; c < classes; ++c) {
    shuffle_rows(members[c], random);
    const auto cut = members[c].begin() + static_cast<std::ptrdiff_t>(tests[c]);
    split.test.insert(split.test.end(), members[c].begin(), cut);
    split.train.insert(split.train.end(), cut, members[c].end());
  }
  std::ranges::sort(split.train);
  std::ranges::sort(split.test);
  return split;
}

std::vector<std::string> remarks_on(const data_split& data) {
  const std::size_t classes = data.train.classes();
  if (classes == 0 || data.train.is_tokens() || data.train.has_targets()) return {};
  std::vector<std::string> remarks;
  const std::vector<bool> trained = classes_in(data.train, classes);
  if (const auto only = std::ranges::find(trained, true);
      only != trained.end() && std::ranges::count(trained, true) == 1)
    remarks.push_back(fmt::format("all {} samples to train on are of one class, {}", data.train.size(),
                                  name_of(data, static_cast<std::size_t>(only - trained.begin()))));
  add_rare(remarks, data, classes);
  add_lacking(remarks, data, trained, data.test, "test on");
  add_lacking(remarks, data, trained, data.validation, "validate on");
  return remarks;
}

void hold_out(data_split& data, double share, std::uint64_t seed, held_out which) {
  const std::size_t all = data.train.size();
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("validation: " + why); };
  if (!(share > 0 && share < 1)) refuse(fmt::format("a share of {} lies not between 0 and 1", share));
  if (all < 2) refuse(fmt::format("{} samples to train on cannot be split", all));
  if (data.validation.size() > 0)
    refuse(fmt::format("{} samples are held out already", data.validation.size()));
  if (which == held_out::last || data.train.is_tokens()) {
    const std::size_t count = part_of(all, share);
    data.validation = data.train.slice(all - count, count);
    data.train = data.train.slice(0, all - count);
  } else {
    const row_split rows = draw_split(all, data.train.labels(), share, seed);
    data.validation = take_rows(data.train, rows.test);
    data.train = take_rows(data.train, rows.train);
  }
}

data_reading reading_of(const data_split& data, const data_files& files, const open_options& options,
                        data_reading noted) {
  data_reading r = std::move(noted);
  const dataset& samples = options.known ? data.test : data.train;
  constexpr std::array<const char*, 10> formats{"",     "IDX",     "CIFAR", "CSV", "libsvm",
                                                "text", "ratings", "npz",   "npy", "pictures"};
  r.format = formats[static_cast<std::size_t>(files.format)];
  r.dims = samples.sample_dims();
  r.inputs = samples.sample_dims().size() + samples.category_counts().size();
  r.train = data.train.size();
  r.validation = data.validation.size();
  r.test = data.test.size();
  r.test_why = format_test(data, files, options);
  r.task = samples.labelled_with();
  if (r.task_why.empty())
    r.task_why = options.known ? "as in training" : options.task ? "--task says so" : "as such files have it";
  if (!samples.has_targets()) count_classes(r, data, samples, options.csv.answers);
  return r;
}

data_split with_test(const fs::path& file, dataset all, std::optional<dataset> test,
                     const open_options& options) {
  if (test) return {std::move(all), std::move(*test), {}, {}};
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
  csv_survey survey = survey_csv(file, layout_for(options));
  if (!options.known) settle_task(survey, file, options.task); // a trained model knows it
  csv_rows train = read_surveyed_csv(file, survey, labels);
  const bool whole = files.test.empty();
  const row_split rows = split_of(file, train, whole && !options.known, options);
  table_layout& table = train.layout.table;
  if (table.missing == missing_values::mean && table.means.empty()) {
    table.means = means_of(file, train, rows.train);
    std::vector<float>& values = train.features.values;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isnan(values[i])) values[i] = table.means[i % table.means.size()];
  }
  std::vector<float> by = divisors_for(train, rows.train, options);
  if (const std::size_t width = train.features.dims.size(); by.size() > 1 && by.size() != width)
    throw_malformed(file, fmt::format("expected {} numbers a row, as the model was trained on, found {}",
                                      by.size(), width));
  csv_rows test = whole ? csv_rows{} : read_csv(files.test, train.layout, labels);
  divide(train.features.values, by);
  divide(test.features.values, by);
  std::vector<std::string> remarks = remarks_on_dropped(file, train);
  for (std::string& remark : remarks_on_dropped(files.test, test)) remarks.push_back(std::move(remark));
  std::ranges::copy(survey.remarks, std::back_inserter(remarks));
  data_reading noted{.table = reading_of(survey, train, test), .task_why = survey.task_why};
  table_layout layout = train.layout.table;
  dataset first = join(std::move(train), labels);
  std::optional<dataset> tested;
  if (!whole) tested = join(std::move(test), labels);
  data_split split = with_test(file, std::move(first), std::move(tested), options);
  split.reading = std::make_shared<const data_reading>(std::move(noted));
  split.table = std::move(layout);
  split.remarks = std::move(remarks);
  split.class_names = labels.names();
  if (!options.known) remark_alike(file, split.class_names, split);
  split.divisors = std::move(by);
  return split;
}

} // namespace mailgrad
