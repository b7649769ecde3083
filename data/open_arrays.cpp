#include <mailgrad/data/open_arrays.hpp>

#include <mailgrad/data/open_table.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

constexpr float most_of_a_byte = 255;

bool is_float(npy_number n) { return n == npy_number::f64 || n == npy_number::f32 || n == npy_number::f16; }

/// Reads the arrays of a data set, and says with the file what is wrong.
class array_reader {
public:
  array_reader(const fs::path& file, const open_options& options)
      : file_(file), options_(options), arrays_(file), labels_(labels_for(options)) {}

  const npz_array* find(const std::string& name) const {
    const npz_array* const found = arrays_.find(name);
    std::string capital = name;
    if (capital.starts_with('x')) capital.front() = 'X'; // as many write a matrix
    return found != nullptr ? found : arrays_.find(capital);
  }
  const npz_array& require(const std::string& name) const {
    const npz_array* const found = find(name);
    if (found == nullptr) fail(fmt::format("expected an array '{}', found none", name));
    return *found;
  }

  /// The samples of two arrays. Those for training come first, as they settle the labels.
  dataset samples(const npz_array& x, const npz_array& y);

  const label_map& labels() const noexcept { return labels_; }
  const std::vector<float>& divisors() const noexcept { return divisors_; }
  [[noreturn]] void fail(std::string_view what) const { throw_malformed(file_, what); }

private:
  shape sample_dims(const npz_array& x) const;
  feature_store features(const npz_array& x);
  std::vector<std::int32_t> classes_in(const npz_array& y);
  void divide(std::vector<float>& values) const;

  const fs::path& file_;
  const open_options& options_;
  npz_file arrays_;
  label_map labels_;
  std::vector<float> divisors_;
  bool is_first_ = true; ///< the samples that are read decide what numbers are divided by
};

/// Pictures of three axes, samples, rows and columns, have one channel.
shape array_reader::sample_dims(const npz_array& x) const {
  const shape& all = x.header.dims;
  const auto wrong = [&](std::string_view what) {
    fail(fmt::format("array '{}' of shape {} {}", x.name, to_string(all), what));
  };
  if (all.rank() == 0) wrong("has no axis of samples");
  if (all.rank() == 1) return {1};
  if (all.rank() == shape::max_rank) wrong("has too many axes");
  shape dims = all.rank() == 3 ? shape{all[1], all[2], 1} : shape(std::span(all.begin() + 1, all.end()));
  if (std::ranges::find(dims, std::size_t{0}) != dims.end()) wrong("has samples without a number");
  return dims;
}

void array_reader::divide(std::vector<float>& values) const {
  if (divisors_.empty()) return;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= divisors_[i % divisors_.size()];
}

feature_store array_reader::features(const npz_array& x) {
  const shape dims = sample_dims(x);
  const std::size_t count = x.header.dims.size();
  const bool bytes = x.header.numbers == npy_number::u8;
  options_.limit.require(file_, count * (bytes ? 1 : sizeof(float)));
  if (options_.known) divisors_ = options_.known->divisors;
  if (divisors_.size() > 1 && divisors_.size() != dims.size())
    fail(fmt::format("expected {} numbers a sample, as the model was trained on, found {}", divisors_.size(),
                     dims.size()));
  if (bytes && divisors_.size() < 2) {
    if (!options_.known && is_first_) divisors_ = {most_of_a_byte};
    is_first_ = false;
    byte_features f{dims, std::vector<std::uint8_t>(count), divisors_.empty() ? 1 : 1 / divisors_.front()};
    arrays_.read(x, std::span(f.values));
    return f;
  }
  is_first_ = false;
  float_features f{dims, std::vector<float>(count)};
  arrays_.read(x, std::span(f.values));
  divide(f.values);
  return f;
}

std::vector<std::int32_t> array_reader::classes_in(const npz_array& y) {
  std::vector<std::int32_t> numbers(y.header.dims.size());
  arrays_.read(y, std::span(numbers));
  const bool opens = labels_.is_open();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto label = labels_.find(std::to_string(numbers[i]));
    if (!label)
      fail(fmt::format("array '{}': expected {}, found {} at number {}", y.name, labels_.expected(),
                       numbers[i], i));
    numbers[i] = *label;
  }
  if (opens) labels_.settle(numbers);
  return numbers;
}

dataset array_reader::samples(const npz_array& x, const npz_array& y) {
  const shape& answers = y.header.dims;
  if (answers.rank() == 0 || answers.size() != answers[0])
    fail(fmt::format("array '{}': expected one number a sample, found shape {}", y.name, to_string(answers)));
  feature_store read = features(x);
  if (x.header.dims[0] != answers[0])
    fail(fmt::format("arrays '{}' and '{}': {} samples have {} answers", x.name, y.name, x.header.dims[0],
                     answers[0]));
  const label_kind usual = is_float(y.header.numbers) ? label_kind::numbers : label_kind::classes;
  try {
    if (options_.task.value_or(usual) == label_kind::numbers) {
      std::vector<float> targets(answers.size());
      arrays_.read(y, std::span(targets));
      return {std::move(read), std::move(targets)};
    }
    std::vector<std::int32_t> classes = classes_in(y);
    return {std::move(read), std::move(classes), labels_.classes()};
  } catch (const std::invalid_argument& e) { // a number that is not finite
    fail(fmt::format("arrays '{}' and '{}': {}", x.name, y.name, e.what()));
  }
}

} // namespace

data_split open_npz(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  array_reader arrays(file, options);
  const bool named = arrays.find("x_train") != nullptr;
  const bool tested = arrays.find("x_test") != nullptr;
  if (!named && arrays.find("x") == nullptr)
    arrays.fail("expected arrays x_train, y_train, x_test and y_test, or x and y, found neither");
  if (tested && options.files.train_fraction)
    arrays.fail("expected one array to cut, as a part for testing is asked for, found x_train and x_test");
  dataset first =
      arrays.samples(arrays.require(named ? "x_train" : "x"), arrays.require(named ? "y_train" : "y"));
  data_split split;
  if (tested) {
    split.test = arrays.samples(arrays.require("x_test"), arrays.require("y_test"));
    split.train = std::move(first);
    if (split.train.sample_dims() != split.test.sample_dims())
      arrays.fail(fmt::format("expected samples of {} in x_test, as in x_train, found {}",
                              to_string(split.train.sample_dims()), to_string(split.test.sample_dims())));
  } else {
    split = cut(file, std::move(first), options);
  }
  split.class_names = arrays.labels().names();
  split.divisors = arrays.divisors();
  return split;
}

} // namespace mailgrad
