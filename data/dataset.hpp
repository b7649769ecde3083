#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace mailgrad {

/// Rows of bytes, as pictures come; they are scaled when a batch is made, so a picture set stays small.
struct byte_features {
  shape dims; ///< of one sample; pictures are height x width x channels
  std::vector<std::uint8_t> values;
  float scale = 1.0F / 255;
};

/// Rows of numbers.
struct float_features {
  shape dims; ///< of one sample
  std::vector<float> values;
};

/// Compressed sparse rows: row i is the entries offsets[i] to offsets[i + 1].
struct sparse_features {
  std::size_t width = 0; ///< features of a row, stored or not
  std::vector<std::size_t> offsets{0};
  std::vector<std::int32_t> columns; ///< from 0, ascending within a row
  std::vector<float> values;
};

/// Windows of a stream of tokens: window i reads `length` tokens from i * stride on, and its labels are the
/// tokens one later.
struct token_windows {
  std::vector<std::int32_t> tokens;
  std::size_t length = 0;
  std::size_t stride = 0;
};

/// What the samples of a set are labelled with.
enum class label_kind : std::uint8_t {
  classes, ///< one of so many
  numbers, ///< targets of a regression
};

/// Rows of categories, such as who rated what, each row with a few plain numbers or none.
struct categorical_features {
  std::vector<std::size_t> counts;      ///< category j of a row lies in [0, counts[j])
  std::vector<std::int32_t> categories; ///< row by row
  std::size_t width = 0;                ///< numbers of a row
  std::vector<float> values;            ///< row by row
};

using feature_store =
    std::variant<byte_features, float_features, sparse_features, token_windows, categorical_features>;

/// Samples and their labels in memory, kept as compactly as their kind allows.
///
/// Shapes  labels: int32[size()], each in [0, classes()); empty for tokens, whose labels are tokens too. Or
///         targets: float32[size()]; there are no classes then. Features and targets are finite.
/// Errors  std::invalid_argument if the parts do not fit together, or a number is infinite or none.
/// Threads a value like any other: const access from many threads, otherwise one at a time.
class dataset {
public:
  dataset() = default;
  dataset(feature_store features, std::vector<std::int32_t> labels, std::size_t classes);
  /// Of numbers to predict, but not of tokens.
  dataset(feature_store features, std::vector<float> targets);

  std::size_t size() const noexcept { return size_; }
  /// Of the features of one sample: {height, width, channels}, {features}, {window length}, or {numbers},
  /// which may be {0} where samples have categories.
  const shape& sample_dims() const noexcept { return sample_dims_; }
  std::size_t classes() const noexcept { return classes_; }
  label_kind labelled_with() const noexcept { return kind_; }
  std::span<const std::int32_t> labels() const noexcept { return labels_; }
  std::span<const float> targets() const noexcept { return targets_; }
  const feature_store& features() const noexcept { return features_; }

  bool is_sparse() const noexcept { return std::holds_alternative<sparse_features>(features_); }
  bool is_tokens() const noexcept { return std::holds_alternative<token_windows>(features_); }

  /// Of the categories of a sample; empty where it has none.
  std::span<const std::size_t> category_counts() const noexcept;
  bool has_targets() const noexcept { return kind_ == label_kind::numbers; }

  /// Memory that samples and labels take.
  std::size_t bytes() const noexcept;

  /// Copies `count` samples from `first` on, with the classes and the width of the whole.
  dataset slice(std::size_t first, std::size_t count) const;

private:
  void measure();

  feature_store features_;
  label_kind kind_ = label_kind::classes;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
  shape sample_dims_;
  std::size_t size_ = 0;
  std::size_t classes_ = 0;
};

/// What a run reads: the samples it learns from and those it is judged by.
struct data_split {
  dataset train;
  dataset test;
  std::string name;
  /// What the classes are called where the files say so, by class: "T-shirt", "A", "+1". Empty otherwise.
  /// Of a text: its symbols in UTF-8.
  std::vector<std::string> class_names;
};

} // namespace mailgrad
