#pragma once

#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/data/table_layout.hpp>

#include <initializer_list>
#include <utility>
#include <variant>

namespace mailgrad {

struct named_array {
  std::string name; ///< that of the model's input which the array feeds
  sample_array values;
};

/// The arrays of a data set, under the names of the model's inputs that read them: "image" and "meta", or
/// only "features".
/// Errors  std::invalid_argument: no input, an empty name, a name that comes twice, the name "labels", inputs
///         of different numbers of samples, samples without a number, a number that is infinite or NaN.
/// Threads a value like any other: const access from many threads, otherwise one at a time.
class named_arrays {
public:
  /// One input, called "features", as the built-in models read it.
  named_arrays(sample_array features);
  named_arrays(std::initializer_list<named_array> inputs);
  explicit named_arrays(std::vector<named_array> inputs);
  const std::vector<named_array>& all() const noexcept { return inputs_; }
  /// Returns the array of that name, or null if there is none.
  const sample_array* find(std::string_view name) const noexcept;
  std::size_t samples() const noexcept { return inputs_.front().values.samples(); }
  /// The memory that the numbers take.
  std::size_t bytes() const noexcept;
  /// Returns `count` samples from `first` on, which must exist. The slice shares the memory.
  named_arrays slice(std::size_t first, std::size_t count) const;

private:
  std::vector<named_array> inputs_; ///< never empty
};

/// Rows of bytes, such as pictures. They are scaled when a batch is made, so the data set takes one byte a
/// value.
struct byte_features {
  static constexpr float largest = 255; ///< of a byte

  shape dims; ///< of one sample; pictures are height x width x channels
  std::vector<std::uint8_t> values;
  float scale = 1 / largest;
};

/// Rows of numbers.
struct float_features {
  shape dims; ///< of one sample
  std::vector<float> values;
};

/// Compressed sparse rows: row i is the entries offsets[i] to offsets[i + 1].
struct sparse_features {
  std::size_t width = 0; ///< features of a row, including zeros that are not stored
  std::vector<std::size_t> offsets{0};
  std::vector<std::int32_t> columns; ///< from 0, ascending within a row
  std::vector<float> values;
};

/// Windows of a stream of tokens. Window i reads `length` tokens from i * stride on. The label of a token is
/// the token that follows it.
struct token_windows {
  std::vector<std::int32_t> tokens;
  std::size_t length = 0;
  std::size_t stride = 0;
};

/// What the labels of a data set are.
enum class label_kind : std::uint8_t {
  classes, ///< the number of a class
  numbers, ///< targets of a regression
};

/// Rows of categories, such as the user and the item of a rating. A row may also have a few plain numbers.
struct categorical_features {
  std::vector<std::size_t> counts;      ///< category j of a row lies in [0, counts[j])
  std::vector<std::int32_t> categories; ///< row by row
  std::size_t width = 0;                ///< numbers of a row
  std::vector<float> values;            ///< row by row
};

using feature_store = std::variant<byte_features, float_features, sparse_features, token_windows,
                                   categorical_features, named_arrays>;

/// Samples and their labels in memory, kept as compactly as their kind allows.
/// Shapes  either labels: int32[size()], each in [0, classes()), but empty for tokens, whose labels are
///         tokens too; or targets: float32[size()] or float32[size(), width], without classes. Features and
///         targets are finite.
/// Errors  std::invalid_argument if the parts do not fit together, or a number is infinite or NaN.
/// Threads a value like any other: const access from many threads, otherwise one at a time.
class dataset {
public:
  dataset() = default;
  dataset(feature_store features, std::vector<std::int32_t> labels, std::size_t classes);
  /// Makes a set for regression. Tokens cannot have targets.
  dataset(feature_store features, std::vector<float> targets);

  /// Makes a set of arrays that the program holds: one, which feeds the input "features", or several by name.
  ///
  ///   dataset::from(sample_array({n, 4}, features), sample_array({n}, labels), 3)
  ///   dataset::from({{"user", sample_array({n}, users)}, {"item", sample_array({n}, items)}}, ratings)
  ///
  /// Shapes  labels: int32[n], each in [0, classes).
  static dataset from(named_arrays inputs, sample_array labels, std::size_t classes);
  /// Shapes  targets: float32[n], or float32[n, width] for several numbers of a sample.
  static dataset from(named_arrays inputs, sample_array targets);
  std::size_t size() const noexcept { return size_; }
  /// The shape of one sample's features: {height, width, channels}, {features}, {window length} or {numbers}.
  /// It is {0} where samples have only categories, or no named array "features" of float32.
  const shape& sample_dims() const noexcept { return sample_dims_; }
  std::size_t classes() const noexcept { return classes_; }
  label_kind labelled_with() const noexcept { return kind_; }
  std::span<const std::int32_t> labels() const noexcept {
    return has_targets() ? std::span<const std::int32_t>() : answers_.values<std::int32_t>();
  }
  std::span<const float> targets() const noexcept {
    return has_targets() ? answers_.values() : std::span<const float>();
  }
  /// The shape of one sample's target: a scalar, or {width}.
  shape target_dims() const { return has_targets() ? answers_.sample_dims() : shape(); }
  const feature_store& features() const noexcept { return features_; }
  bool is_sparse() const noexcept { return std::holds_alternative<sparse_features>(features_); }
  bool is_tokens() const noexcept { return std::holds_alternative<token_windows>(features_); }

  /// The number of values that each category of a sample can take; empty where samples have no categories.
  std::span<const std::size_t> category_counts() const noexcept;
  bool has_targets() const noexcept { return kind_ == label_kind::numbers; }

  /// The named arrays, or null where the samples are of another kind.
  const named_arrays* arrays() const noexcept { return std::get_if<named_arrays>(&features_); }

  /// The memory that samples and labels take.
  std::size_t bytes() const noexcept;

  /// Labels or targets with the type and the shape in which they are held; without samples for tokens.
  const sample_array& answers() const noexcept { return answers_; }
  /// Makes a set of other samples whose answers mean the same: the classes and the kind of label are these.
  dataset with(feature_store features, sample_array answers) const {
    return {std::move(features), std::move(answers), classes_, kind_};
  }

  /// Returns `count` samples from `first` on, with the classes and the width of the whole. Features are
  /// copied, but named arrays, labels and targets share their memory with the whole.
  dataset slice(std::size_t first, std::size_t count) const;

private:
  dataset(feature_store features, sample_array answers, std::size_t classes, label_kind kind);

  feature_store features_;
  label_kind kind_ = label_kind::classes;
  sample_array answers_; ///< labels or targets
  shape sample_dims_;
  std::size_t size_ = 0;
  std::size_t classes_ = 0;
};

/// The samples of these rows, copied.
/// Errors  std::invalid_argument for windows of a text, which overlap and are cut by slice().
dataset take_rows(const dataset& all, std::span<const std::size_t> rows);

struct data_source;
struct data_reading;

/// The data of a run: the samples it trains on, those it is tested on, and those by which it is judged while
/// it goes on.
struct data_split {
  dataset train;
  dataset test;
  std::string name;
  /// The name of each class, such as "T-shirt", "A" or "+1"; empty if the files give none. For a text they
  /// are its symbols in UTF-8.
  std::vector<std::string> class_names;
  /// What the numbers of the files were divided by: one for all, one for each number of a sample, or nothing.
  std::vector<float> divisors{};
  /// How the rows of a CSV file became samples; without columns for other files.
  table_layout table{};
  /// What somebody should know before training, a line each: rows that were left out, classes that a part
  /// lacks.
  std::vector<std::string> remarks{};
  /// Held out of the training samples by hold_out(); empty if nothing was.
  dataset validation{};
  /// How open_data() found them, so that another process can open them as well; null if a program made them.
  std::shared_ptr<const data_source> source{};
  /// What open_data() made of the files; null if a program made the data.
  std::shared_ptr<const data_reading> reading{};
};

/// Data that several runs may share: a data_split, or a pointer to one.
class shared_data : public std::shared_ptr<const data_split> {
public:
  using std::shared_ptr<const data_split>::shared_ptr;
  shared_data(data_split own) : shared_ptr(std::make_shared<const data_split>(std::move(own))) {}
  shared_data(std::shared_ptr<const data_split> shared) : shared_ptr(std::move(shared)) {}
};

/// The SHA-256 of everything that a mini-batch of these samples is cut from: features, labels or targets,
/// shapes and scale. Two sets of the same digest give the same batches, bit for bit. It takes a second for
/// about 400 MB.
std::string digest_of(const dataset& d);

} // namespace mailgrad
