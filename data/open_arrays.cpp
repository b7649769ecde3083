#include <mailgrad/data/open_arrays.hpp>

#include <mailgrad/data/open_table.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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

/// Whether a double spells a whole number, so that no other has the same double.
bool is_whole(double x) {
  constexpr double exact = 9007199254740992; // 2^53
  return std::abs(x) < exact && x == std::floor(x);
}

[[noreturn]] void refuse_both(const npy_file& x, const npy_file& y, std::string_view what) {
  throw_malformed(x.file(),
                  fmt::format("arrays {} and {}: {}", in_quotes(x.name()), in_quotes(y.name()), what));
}

/// Reads the arrays of a data set, wherever they lie, and says with the file what is wrong.
class array_reader {
public:
  explicit array_reader(const open_options& options)
      : options_(options), labels_(labels_for(options)), kind_(options.task) {}

  /// The samples of two arrays. Those for training come first, as they settle the labels.
  dataset samples(npy_file x, npy_file y);
  /// Both parts, or one part to be cut.
  data_split split(dataset first, std::optional<dataset> test, const fs::path& file,
                   const fs::path& test_file);

private:
  feature_store features(npy_file& x);
  dataset with_answers(feature_store read, npy_file& y);
  dataset with_floats(feature_store read, npy_file& y);
  dataset with_classes(feature_store read, const npy_file& y, std::span<const std::int64_t> numbers);
  void divide(std::vector<float>& values) const;

  const open_options& options_;
  label_map labels_;
  std::optional<label_kind> kind_; ///< what is learnt, once somebody or the first answers have said it
  std::vector<float> divisors_;
  std::vector<std::string> remarks_;
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

dataset array_reader::with_classes(feature_store read, const npy_file& y,
                                   std::span<const std::int64_t> numbers) {
  std::vector<std::int32_t> classes(numbers.size());
  const bool opens = labels_.is_open();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto label = labels_.find(std::to_string(numbers[i]));
    if (!label) y.fail(fmt::format("expected {}, found {} at number {}", labels_.expected(), numbers[i], i));
    classes[i] = *label;
  }
  if (opens) labels_.settle(classes);
  return {std::move(read), std::move(classes), labels_.classes()};
}

/// The first answers, of a type that fractions have: if they are all whole, they are classes.
dataset array_reader::with_floats(feature_store read, npy_file& y) {
  std::vector<double> numbers(y.left());
  y.read(std::span(numbers));
  kind_ = std::ranges::all_of(numbers, is_whole) ? label_kind::classes : label_kind::numbers;
  if (kind_ == label_kind::numbers) {
    const auto wide =
        std::ranges::find_if(numbers, [](double x) { return std::isfinite(x) && !fits_float(x); });
    if (wide != numbers.end())
      y.fail(fmt::format("number {} is too large for float32", wide - numbers.begin()));
    return {std::move(read), std::vector<float>(numbers.begin(), numbers.end())};
  }
  dataset samples =
      with_classes(std::move(read), y, std::vector<std::int64_t>(numbers.begin(), numbers.end()));
  remarks_.push_back(
      fmt::format("{}: all {} numbers of array {} are whole, so they are taken for {} classes; "
                  "--task regression (open_options::task) learns them as numbers",
                  y.file().filename().string(), numbers.size(), in_quotes(y.name()), samples.classes()));
  return samples;
}

dataset array_reader::with_answers(feature_store read, npy_file& y) {
  if (!kind_ && is_float(y.header().numbers)) return with_floats(std::move(read), y);
  if (!kind_) kind_ = label_kind::classes;
  if (kind_ == label_kind::classes) {
    std::vector<std::int64_t> numbers(y.left());
    y.read(std::span(numbers));
    return with_classes(std::move(read), y, numbers);
  }
  std::vector<float> targets(y.left());
  y.read(std::span(targets));
  return {std::move(read), std::move(targets)};
}

dataset array_reader::samples(npy_file x, npy_file y) {
  const shape& answers = y.header().dims;
  if (answers.rank() == 0 || answers.size() != answers[0])
    y.fail(fmt::format("expected one number a sample, found shape {}", to_string(answers)));
  feature_store read = features(x);
  if (x.header().dims[0] != answers[0])
    refuse_both(x, y, fmt::format("{} samples have {} answers", x.header().dims[0], answers[0]));
  try {
    return with_answers(std::move(read), y);
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
  both.remarks = std::move(remarks_);
  return both;
}

/// The arrays of an archive by name.
class archive_arrays {
public:
  explicit archive_arrays(const fs::path& file)
      : archive_(file, {"x", "X", "y", "x_train", "X_train", "y_train", "x_test", "X_test", "y_test"}) {}

  const std::vector<std::string>& passed_over() const noexcept { return archive_.passed_over(); }

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
  data_split both = reader.split(std::move(first), std::move(test), file, file);
  for (const std::string& name : arrays.passed_over())
    both.remarks.push_back(fmt::format("{}: array {} holds no numbers, and is passed over",
                                       file.filename().string(), in_quotes(name)));
  return both;
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
