#include <mailgrad/data/dataset.hpp>
#include <mailgrad/files/digests.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>

namespace mailgrad {

namespace {

std::string quoted(const std::string& name) { return fmt::format("input '{}'", name); }

void require_fitting(const named_array& input, const named_array& first) {
  const sample_array& a = input.values;
  require_dataset(!input.name.empty(), "an input has no name");
  require_dataset(input.name != batch_input::labels, "no input may be called 'labels', as what is learnt is");
  require_dataset(
      a.samples() == first.values.samples(),
      fmt::format("{} of shape {} has {} samples, where {} has {}; the first extent counts the samples",
                  quoted(input.name), to_string(a.dims()), a.samples(), quoted(first.name),
                  first.values.samples()));
  require_dataset(a.sample_dims().size() > 0, fmt::format("{} of shape {} has samples without a number",
                                                          quoted(input.name), to_string(a.dims())));
  if (a.type() == dtype::float32)
    require_finite(a.values(), a.sample_dims().size(), fmt::format("{}: number", quoted(input.name)));
}

std::size_t rows(const shape& dims, std::size_t values) {
  require_dataset(dims.rank() < shape::max_rank, "a sample has as many extents as a batch may have");
  require_dataset(dims.size() > 0, "a sample has no features");
  require_dataset(values % dims.size() == 0, "the values do not fill whole samples");
  return values / dims.size();
}
std::size_t rows(const byte_features& f) {
  require_dataset(std::isfinite(f.scale * std::numeric_limits<std::uint8_t>::max()),
                  "the scale of the bytes leads to numbers that are not finite");
  return rows(f.dims, f.values.size());
}
std::size_t rows(const float_features& f) {
  const std::size_t count = rows(f.dims, f.values.size());
  require_finite(f.values, f.dims.size(), "number");
  return count;
}

std::size_t rows(const sparse_features& f) {
  require_dataset(!f.offsets.empty() && f.offsets.front() == 0 && f.offsets.back() == f.columns.size() &&
                      f.columns.size() == f.values.size() && std::ranges::is_sorted(f.offsets),
                  "offsets, columns and values of the sparse rows disagree");
  require_dataset(
      std::ranges::all_of(f.columns,
                          [&](std::int32_t c) { return c >= 0 && static_cast<std::size_t>(c) < f.width; }),
      "a column lies outside the width");
  require_finite(f.values, 0, "entry");
  return f.offsets.size() - 1;
}

std::size_t rows(const token_windows& f) {
  require_dataset(f.length > 0 && f.stride > 0, "a window needs a length and a stride");
  return f.tokens.size() <= f.length ? 0 : (f.tokens.size() - f.length - 1) / f.stride + 1;
}

std::size_t rows(const categorical_features& f) {
  const std::size_t k = f.counts.size();
  require_dataset(k > 0, "a sample has no categories");
  require_dataset(f.categories.size() % k == 0, "the categories do not fill whole samples");
  const std::size_t count = f.categories.size() / k;
  require_dataset(f.width == 0 ? f.values.empty()
                               : f.values.size() % f.width == 0 && f.values.size() / f.width == count,
                  "there are not as many numbers as the samples need");
  require_finite(f.values, f.width, "number");
  for (std::size_t i = 0; i < f.categories.size(); ++i)
    require_dataset(f.categories[i] >= 0 && static_cast<std::size_t>(f.categories[i]) < f.counts[i % k],
                    "a category lies outside its count");
  return count;
}

std::size_t rows(const named_arrays& f) { return f.samples(); }
shape dims_of(const byte_features& f) { return f.dims; }
shape dims_of(const float_features& f) { return f.dims; }
shape dims_of(const sparse_features& f) { return {f.width}; }
shape dims_of(const token_windows& f) { return {f.length}; }
shape dims_of(const categorical_features& f) { return {f.width}; }
shape dims_of(const named_arrays& f) {
  const sample_array* features = f.find(batch_input::features);
  return features != nullptr && features->type() == dtype::float32 ? features->sample_dims() : shape{0};
}
std::size_t bytes_of(const byte_features& f) { return f.values.capacity(); }
std::size_t bytes_of(const float_features& f) { return f.values.capacity() * sizeof(float); }
std::size_t bytes_of(const token_windows& f) { return f.tokens.capacity() * sizeof(std::int32_t); }
std::size_t bytes_of(const categorical_features& f) {
  return f.categories.capacity() * sizeof(std::int32_t) + f.values.capacity() * sizeof(float);
}
std::size_t bytes_of(const named_arrays& f) { return f.bytes(); }
std::size_t bytes_of(const sparse_features& f) {
  return f.offsets.capacity() * sizeof(std::size_t) + f.columns.capacity() * sizeof(std::int32_t) +
         f.values.capacity() * sizeof(float);
}

template <class T>
std::vector<T> picked(std::span<const T> all, std::size_t each, const auto& rows) {
  std::vector<T> some;
  some.reserve(rows.size() * each);
  for (const std::size_t row : rows) {
    const auto part = all.subspan(row * each, each);
    some.insert(some.end(), part.begin(), part.end());
  }
  return some;
}

byte_features picked(const byte_features& f, const auto& rows) {
  return {f.dims, picked(std::span(f.values), f.dims.size(), rows), f.scale};
}
float_features picked(const float_features& f, const auto& rows) {
  return {f.dims, picked(std::span(f.values), f.dims.size(), rows)};
}

sparse_features picked(const sparse_features& f, const auto& rows) {
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

categorical_features picked(const categorical_features& f, const auto& rows) {
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
feature_store cut(const auto& f, std::size_t first, std::size_t count) {
  return picked(f, std::views::iota(first, first + count));
}
feature_store cut(const token_windows& f, std::size_t first, std::size_t count) {
  const auto begin = f.tokens.begin() + static_cast<std::ptrdiff_t>(first * f.stride);
  const std::size_t tokens = count == 0 ? 0 : (count - 1) * f.stride + f.length + 1;
  return token_windows{{begin, begin + static_cast<std::ptrdiff_t>(tokens)}, f.length, f.stride};
}
feature_store cut(const named_arrays& f, std::size_t first, std::size_t count) {
  return f.slice(first, count);
}

void require_in_range(std::span<const std::int32_t> labels, std::size_t classes, const char* what) {
  const auto found = std::ranges::find_if(
      labels, [=](std::int32_t l) { return l < 0 || static_cast<std::size_t>(l) >= classes; });
  if (found == labels.end()) return;
  throw std::invalid_argument(
      fmt::format("dataset: {} {} is {}, which is none of the {} classes; they count from 0", what,
                  found - labels.begin(), *found, classes));
}

/// Checks the type and the rank of labels or targets before any value of them is read.
void require_answers(const sample_array& answers, dtype type, std::size_t most_rank, const char* what) {
  require_dataset(answers.type() == type,
                  fmt::format("{} must be {}, found {}", what, to_string(type),
                              type == dtype::float32
                                  ? "int32; labels of classes need the number of classes"
                                  : "float32; leave out the classes if numbers are learnt"));
  require_dataset(
      answers.dims().rank() <= most_rank,
      fmt::format("{} of shape {} have more extents than {}", what, to_string(answers.dims()),
                  most_rank == 1 ? "one, which counts the samples" : "two, samples and numbers of a sample"));
}

template <class T>
sample_array column(std::vector<T> values) {
  const shape dims{values.size()};
  return {dims, std::move(values)};
}
std::string hash_of(const std::ranges::contiguous_range auto& values) {
  return sha256(std::as_bytes(std::span(values)));
}

/// Of bytes that are divided by 255, as those of all files are, the scale is left out: recordings have such
/// digests.
std::string hash_of(const byte_features& f) {
  const std::string values = hash_of(f.values);
  return f.scale == byte_features().scale ? values : values + fmt::format(" {:.9g}", f.scale);
}
std::string hash_of(const float_features& f) { return hash_of(f.values); }
std::string hash_of(const sparse_features& f) {
  return hash_of(f.offsets) + hash_of(f.columns) + hash_of(f.values);
}
std::string hash_of(const token_windows& f) {
  return hash_of(f.tokens) + std::to_string(f.length) + ' ' + std::to_string(f.stride);
}
std::string hash_of(const categorical_features& f) {
  return hash_of(f.counts) + hash_of(f.categories) + hash_of(f.values);
}

std::string hash_of(const named_arrays& arrays) {
  std::string text;
  for (const auto& [name, values] : arrays.all())
    text += fmt::format("{};{} {};{}\n", name, to_string(values.type()), to_string(values.dims()),
                        sha256(values.bytes()));
  return hash_of(text);
}

} // namespace

named_arrays::named_arrays(sample_array features)
    : named_arrays(std::vector<named_array>{{std::string(batch_input::features), std::move(features)}}) {}

named_arrays::named_arrays(std::initializer_list<named_array> inputs)
    : named_arrays(std::vector<named_array>(inputs)) {}

named_arrays::named_arrays(std::vector<named_array> inputs) : inputs_(std::move(inputs)) {
  require_dataset(!inputs_.empty(), "there is no input; give one array at least");
  for (auto input = inputs_.begin(); input != inputs_.end(); ++input) {
    require_fitting(*input, inputs_.front());
    require_dataset(
        std::find_if(inputs_.begin(), input, [&](const auto& i) { return i.name == input->name; }) == input,
        fmt::format("two inputs are called '{}'", input->name));
  }
}

const sample_array* named_arrays::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(inputs_, name, &named_array::name);
  return found == inputs_.end() ? nullptr : &found->values;
}

std::size_t named_arrays::bytes() const noexcept {
  return std::transform_reduce(inputs_.begin(), inputs_.end(), std::size_t{0}, std::plus<>{},
                               [](const named_array& i) { return i.values.bytes().size(); });
}

named_arrays named_arrays::slice(std::size_t first, std::size_t count) const {
  named_arrays part = *this;
  for (named_array& input : part.inputs_) input.values = input.values.slice(first, count);
  return part;
}

dataset::dataset(feature_store features, std::vector<std::int32_t> labels, std::size_t classes)
    : dataset(std::move(features), column(std::move(labels)), classes, label_kind::classes) {}

dataset::dataset(feature_store features, std::vector<float> targets)
    : dataset(std::move(features), column(std::move(targets)), 0, label_kind::numbers) {}

dataset dataset::from(named_arrays inputs, sample_array labels, std::size_t classes) {
  require_answers(labels, dtype::int32, 1, "labels");
  return {std::move(inputs), std::move(labels), classes, label_kind::classes};
}
dataset dataset::from(named_arrays inputs, sample_array targets) {
  require_answers(targets, dtype::float32, 2, "targets");
  return {std::move(inputs), std::move(targets), 0, label_kind::numbers};
}

dataset::dataset(feature_store features, sample_array answers, std::size_t classes, label_kind kind)
    : features_(std::move(features)), kind_(kind), answers_(std::move(answers)), classes_(classes) {
  size_ = std::visit([](const auto& f) { return rows(f); }, features_);
  sample_dims_ = std::visit([](const auto& f) { return dims_of(f); }, features_);
  const std::size_t found = answers_.samples();
  require_dataset(!has_targets() || !is_tokens(), "the labels of tokens are tokens");
  require_dataset(found == (is_tokens() ? 0 : size_),
                  fmt::format("there is not one {} for each sample, but {} for {}",
                              has_targets() ? "target" : "label", found, size_));
  if (has_targets()) {
    require_dataset(target_dims().size() > 0,
                    fmt::format("targets of shape {} have no number", to_string(answers_.dims())));
    require_finite(targets(), target_dims().size(), "target");
  }
  require_in_range(labels(), classes, "the label of sample");
  if (const auto* windows = std::get_if<token_windows>(&features_))
    require_in_range(windows->tokens, classes, "token");
}

std::span<const std::size_t> dataset::category_counts() const noexcept {
  const auto* f = std::get_if<categorical_features>(&features_);
  return f == nullptr ? std::span<const std::size_t>() : f->counts;
}
std::size_t dataset::bytes() const noexcept {
  return std::visit([](const auto& f) { return bytes_of(f); }, features_) + answers_.bytes().size();
}

dataset dataset::slice(std::size_t first, std::size_t count) const {
  if (first > size_ || count > size_ - first)
    throw std::out_of_range(fmt::format("dataset: samples {} to {} of {}", first, first + count, size_));
  auto features = std::visit([&](const auto& f) { return cut(f, first, count); }, features_);
  return {std::move(features), is_tokens() ? answers_ : answers_.slice(first, count), classes_, kind_};
}

dataset take_rows(const dataset& all, std::span<const std::size_t> rows) {
  feature_store features =
      std::visit([&](const auto& f) -> feature_store { return picked(f, rows); }, all.features());
  return all.with(std::move(features), picked(all.answers(), rows));
}

std::string digest_of(const dataset& d) {
  const std::string features = std::visit([](const auto& f) { return hash_of(f); }, d.features());
  std::string targets = d.has_targets() ? hash_of(d.targets()) : std::string();
  if (d.target_dims().rank() > 0) targets += to_string(d.target_dims()) + ';';
  return hash_of(features + hash_of(d.labels()) + targets + to_string(d.sample_dims()) +
                 std::to_string(d.classes()));
}

} // namespace mailgrad
