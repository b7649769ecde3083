#include <mailgrad/data/open_arrays.hpp>

#include <mailgrad/data/open_table.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

bool is_float(npy_number n) { return n == npy_number::f64 || n == npy_number::f32 || n == npy_number::f16; }

[[noreturn]] void refuse_both(const npy_file& x, const npy_file& y, std::string_view what) {
  throw_malformed(x.file(),
                  fmt::format("arrays {} and {}: {}", in_quotes(x.name()), in_quotes(y.name()), what));
}

/// Reads the arrays of a data set, wherever they lie, and says with the file what is wrong.
class array_reader {
public:
  explicit array_reader(const open_options& options) : options_(options), labels_(labels_for(options)) {}

  /// The samples of two arrays. Those for training come first, as they settle the labels.
  dataset samples(npy_file x, npy_file y);
  /// Both parts, or one part to be cut.
  data_split split(dataset first, std::optional<dataset> test, const fs::path& file,
                   const fs::path& test_file);

private:
  feature_store features(npy_file& x);
  std::vector<std::int32_t> classes_in(npy_file& y);
  void divide(std::vector<float>& values) const;

  const open_options& options_;
  label_map labels_;
  std::vector<float> divisors_;
  bool is_first_ = true; ///< the samples that are read decide what numbers are divided by
};

/// Pictures of three axes, samples, rows and columns, have one channel.
shape sample_dims(const npy_file& x) {
  const shape& all = x.header().dims;
  const auto wrong = [&](std::string_view what) {
    throw_malformed(x.file(),
                    fmt::format("array {} of shape {} {}", in_quotes(x.name()), to_string(all), what));
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

feature_store array_reader::features(npy_file& x) {
  const shape dims = sample_dims(x);
  const std::size_t count = x.header().dims.size();
  const bool bytes = x.header().numbers == npy_number::u8;
  options_.limit.require(x.file(), count * (bytes ? 1 : sizeof(float)));
  if (options_.known) divisors_ = options_.known->divisors;
  if (divisors_.size() > 1 && divisors_.size() != dims.size())
    throw_malformed(x.file(),
                    fmt::format("expected {} numbers a sample, as the model was trained on, found {}",
                                divisors_.size(), dims.size()));
  if (bytes && divisors_.size() < 2) {
    if (!options_.known && is_first_) divisors_ = {byte_features::largest};
    is_first_ = false;
    byte_features f{dims, std::vector<std::uint8_t>(count), divisors_.empty() ? 1 : 1 / divisors_.front()};
    x.read(std::span(f.values));
    return f;
  }
  is_first_ = false;
  float_features f{dims, std::vector<float>(count)};
  x.read(std::span(f.values));
  divide(f.values);
  return f;
}

std::vector<std::int32_t> array_reader::classes_in(npy_file& y) {
  std::vector<std::int32_t> numbers(y.header().dims.size());
  y.read(std::span(numbers));
  const bool opens = labels_.is_open();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto label = labels_.find(std::to_string(numbers[i]));
    if (!label) y.fail(fmt::format("expected {}, found {} at number {}", labels_.expected(), numbers[i], i));
    numbers[i] = *label;
  }
  if (opens) labels_.settle(numbers);
  return numbers;
}

dataset array_reader::samples(npy_file x, npy_file y) {
  const shape& answers = y.header().dims;
  if (answers.rank() == 0 || answers.size() != answers[0])
    y.fail(fmt::format("expected one number a sample, found shape {}", to_string(answers)));
  feature_store read = features(x);
  if (x.header().dims[0] != answers[0])
    refuse_both(x, y, fmt::format("{} samples have {} answers", x.header().dims[0], answers[0]));
  const label_kind usual = is_float(y.header().numbers) ? label_kind::numbers : label_kind::classes;
  try {
    if (options_.task.value_or(usual) == label_kind::numbers) {
      std::vector<float> targets(answers.size());
      y.read(std::span(targets));
      return {std::move(read), std::move(targets)};
    }
    std::vector<std::int32_t> classes = classes_in(y);
    return {std::move(read), std::move(classes), labels_.classes()};
  } catch (const std::invalid_argument& e) { // a number that is not finite
    refuse_both(x, y, e.what());
  }
}

data_split array_reader::split(dataset first, std::optional<dataset> test, const fs::path& file,
                               const fs::path& test_file) {
  data_split both;
  if (test) {
    if (first.sample_dims() != test->sample_dims())
      throw_malformed(test_file, fmt::format("expected samples of {} in x_test, as in x_train, found {}",
                                             to_string(first.sample_dims()), to_string(test->sample_dims())));
    both.train = std::move(first);
    both.test = std::move(*test);
  } else {
    both = cut(file, std::move(first), options_);
  }
  both.class_names = labels_.names();
  both.divisors = divisors_;
  return both;
}

/// The arrays of an archive by name.
class archive_arrays {
public:
  explicit archive_arrays(const fs::path& file) : archive_(file) {}

  const npz_array* find(const std::string& name) const {
    const npz_array* const found = archive_.find(name);
    std::string capital = name;
    capital.front() = 'X'; // as many write a matrix
    return found != nullptr || !name.starts_with('x') ? found : archive_.find(capital);
  }
  npy_file open(const std::string& name) const {
    const npz_array* const found = find(name);
    if (found == nullptr) fail(fmt::format("expected an array '{}', found none", name));
    return archive_.open(*found);
  }
  [[noreturn]] void fail(std::string_view what) const { throw_malformed(archive_.file(), what); }

private:
  npz_file archive_;
};

/// A file of answers beside one of samples.
npy_file open_answers(const fs::path& samples, const fs::path& answers) {
  if (answers.empty())
    throw_malformed(samples, "expected answers beside the samples, in y.npy beside x.npy, y_train.npy beside "
                             "x_train.npy or y_test.npy beside x_test.npy, found samples alone; 'mailgrad "
                             "predict --rows' reads those");
  return npy_file(answers);
}

} // namespace

data_split open_npz(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  const archive_arrays arrays(file);
  const bool named = arrays.find("x_train") != nullptr;
  const bool tested = arrays.find("x_test") != nullptr;
  if (!named && arrays.find("x") == nullptr)
    arrays.fail("expected arrays x_train, y_train, x_test and y_test, or x and y, found neither");
  if (tested && options.files.train_fraction)
    arrays.fail("expected one array to cut, as a part for testing is asked for, found x_train and x_test");
  array_reader reader(options);
  dataset first = reader.samples(arrays.open(named ? "x_train" : "x"), arrays.open(named ? "y_train" : "y"));
  std::optional<dataset> test;
  if (tested) test = reader.samples(arrays.open("x_test"), arrays.open("y_test"));
  return reader.split(std::move(first), std::move(test), file, file);
}

data_split open_npy(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  array_reader reader(options);
  dataset first = reader.samples(npy_file(file), open_answers(file, files.train_labels));
  std::optional<dataset> test;
  if (!files.test.empty())
    test = reader.samples(npy_file(files.test), open_answers(files.test, files.test_labels));
  return reader.split(std::move(first), std::move(test), file, files.test);
}

} // namespace mailgrad
