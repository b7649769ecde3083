#include <mailgrad/data/row_split.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

namespace mailgrad {

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

template <class T>
std::vector<T> picked(std::span<const T> all, std::size_t each, std::span<const std::size_t> rows) {
  std::vector<T> some;
  some.reserve(rows.size() * each);
  for (const std::size_t row : rows) {
    const auto part = all.subspan(row * each, each);
    some.insert(some.end(), part.begin(), part.end());
  }
  return some;
}

byte_features picked(const byte_features& f, std::span<const std::size_t> rows) {
  return {f.dims, picked(std::span(f.values), f.dims.size(), rows), f.scale};
}

float_features picked(const float_features& f, std::span<const std::size_t> rows) {
  return {f.dims, picked(std::span(f.values), f.dims.size(), rows)};
}

sparse_features picked(const sparse_features& f, std::span<const std::size_t> rows) {
  sparse_features some{f.width, {0}, {}, {}};
  for (const std::size_t row : rows) {
    const auto begin = static_cast<std::ptrdiff_t>(f.offsets[row]);
    const auto end = static_cast<std::ptrdiff_t>(f.offsets[row + 1]);
    some.columns.insert(some.columns.end(), f.columns.begin() + begin, f.columns.begin() + end);
    some.values.insert(some.values.end(), f.values.begin() + begin, f.values.begin() + end);
    some.offsets.push_back(some.columns.size());
  }
  return some;
}

categorical_features picked(const categorical_features& f, std::span<const std::size_t> rows) {
  return {f.counts, picked(std::span(f.categories), f.counts.size(), rows), f.width,
          picked(std::span(f.values), f.width, rows)};
}

sample_array picked(const sample_array& a, std::span<const std::size_t> rows) {
  const std::size_t each = a.sample_dims().size();
  shape dims = a.dims();
  dims[0] = rows.size();
  if (a.type() == dtype::int32) return {dims, picked(a.values<std::int32_t>(), each, rows)};
  return {dims, picked(a.values(), each, rows)};
}

named_arrays picked(const named_arrays& f, std::span<const std::size_t> rows) {
  std::vector<named_array> some;
  for (const named_array& a : f.all()) some.push_back({a.name, picked(a.values, rows)});
  return named_arrays(std::move(some));
}

feature_store picked(const token_windows&, std::span<const std::size_t>) {
  throw std::invalid_argument("take_rows: windows of a text overlap; cut them by slice()");
}

std::string name_of(const data_split& data, std::size_t label) {
  return label < data.class_names.size() ? fmt::format("'{}'", data.class_names[label])
                                         : fmt::format("{}", label);
}

/// The classes that occur, by their numbers.
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

/// Adds a remark if `part` lacks classes that are trained.
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

} // namespace

row_split draw_split(std::size_t count, std::span<const std::int32_t> labels, double test_share,
                     std::uint64_t seed) {
  if (!(test_share > 0 && test_share < 1))
    throw std::invalid_argument("draw_split: the share for testing lies between 0 and 1");
  if (count < 2) throw std::invalid_argument("draw_split: one sample cannot be split");
  const auto wanted = static_cast<std::size_t>(std::llround(static_cast<double>(count) * test_share));
  const std::size_t total = std::clamp<std::size_t>(wanted, 1, count - 1);
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

dataset take_rows(const dataset& all, std::span<const std::size_t> rows) {
  feature_store features =
      std::visit([&](const auto& f) -> feature_store { return picked(f, rows); }, all.features());
  return all.with(std::move(features), picked(all.answers(), rows));
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

namespace {

void hold_out_last(data_split& data, double share) {
  const std::size_t all = data.train.size();
  const auto wanted = static_cast<std::size_t>(std::llround(static_cast<double>(all) * share));
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, all - 1);
  data.validation = data.train.slice(all - count, count);
  data.train = data.train.slice(0, all - count);
}

void hold_out_drawn(data_split& data, double share, std::uint64_t seed) {
  const row_split rows = draw_split(data.train.size(), data.train.labels(), share, seed);
  data.validation = take_rows(data.train, rows.test);
  data.train = take_rows(data.train, rows.train);
}

} // namespace

void hold_out(data_split& data, double share, std::uint64_t seed, held_out which) {
  if (!(share > 0 && share < 1))
    throw std::invalid_argument(fmt::format("validation: a share of {} lies not between 0 and 1", share));
  if (data.train.size() < 2)
    throw std::invalid_argument(
        fmt::format("validation: {} samples to train on cannot be split", data.train.size()));
  if (data.validation.size() > 0)
    throw std::invalid_argument(
        fmt::format("validation: {} samples are held out already", data.validation.size()));
  if (which == held_out::last || data.train.is_tokens())
    hold_out_last(data, share);
  else
    hold_out_drawn(data, share, seed);
}

} // namespace mailgrad
