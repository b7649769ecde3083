#pragma once

#include <mailgrad/data/spelled_number.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

namespace mailgrad {

/// How labels are told apart that are the same number.
enum class label_spelling : std::uint8_t {
  numbers,    ///< a whole number is one label however it is written, and a fraction is none
  characters, ///< each spelling is a label of its own, and so is a fraction
};

/// Numbers the labels of a training file from 0, in sorted order, and finds them again in the test file: -1,
/// +1 become 0, 1; 1..k become 0..k-1; A..Z become 0..25. Numbers sort by their value, and words after them
/// by their characters.
///
/// A whole number is one label however it is written: "1", "+1" and "1.0", or "1.000" and "1000" by the signs
/// of a column with decimal commas. A number with leading zeros or an exponent is a code, and is told from
/// others by its characters: "010" is not "10", and "1E2" is not "100".
///
/// A map is open while the training file is read and closed by settle().
/// Threads one caller at a time.
class label_map {
public:
  static constexpr std::size_t most_classes = 65536;

  /// `classes` is the number of classes if that is known, 0 otherwise.
  explicit label_map(std::size_t classes = 0, label_spelling spelling = label_spelling::numbers)
      : spelling_(spelling), known_(classes) {}
  /// A settled map of labels that are known, in the order of their numbers, and written by `signs`.
  explicit label_map(const std::vector<std::string>& names, label_spelling spelling = label_spelling::numbers,
                     number_signs signs = {})
      : spelling_(spelling), signs_(signs), names_(names), open_(false) {
    for (std::size_t i = 0; i < names.size(); ++i)
      numbers_.emplace(key_of(names[i]).value_or(names[i]), static_cast<std::int32_t>(i));
  }
  /// From now on numbers are written by these signs.
  void read_by(number_signs signs) { signs_ = signs; }

  /// Finds the number of a label, which is preliminary while the map is open. Finds nothing for a text that
  /// is no label: a fraction, NaN, infinity, or empty. The same holds for an unknown label in a closed map,
  /// and for one too many in an open map.
  std::optional<std::int32_t> find(std::string_view label);
  /// Closes the map and turns preliminary numbers into those of the sorted order.
  void settle(std::vector<std::int32_t>& labels);
  bool is_open() const noexcept { return open_; }
  /// The number of classes that was given, or else the number of labels found so far.
  std::size_t classes() const noexcept { return known_ > 0 ? known_ : names_.size(); }
  /// The labels in the order of their numbers, once the map is settled, each as it was written first.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// Says in a message what find() accepts: "one of the 3 labels -1, 0, 1"; `what` is what they are called.
  std::string expected(std::string_view what = "label") const;

private:
  std::size_t most() const noexcept { return known_ > 0 ? known_ : most_classes; }
  std::optional<std::string> key_of(std::string_view label) const;
  bool before(const std::string& a, const std::string& b) const;

  label_spelling spelling_ = label_spelling::numbers;
  number_signs signs_{};
  std::map<std::string, std::int32_t, std::less<>> numbers_;
  std::vector<std::string> names_;
  std::size_t known_ = 0;
  bool open_ = true;
};

/// Labels that a file stores as bytes, and their places in it: label i is the byte first + i * stride.
struct byte_labels {
  std::vector<std::uint8_t> values;
  std::filesystem::path file;
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

/// Counts the classes of a training set: one more than its largest label.
/// Errors  file_error if the labels have a gap, since a damaged label leaves one. If some classes really have
///         no samples, the caller must know the number of classes and use require_below() instead.
std::size_t count_classes(const byte_labels& labels);

/// Errors  file_error naming the first label that is not below `classes`.
void require_below(std::size_t classes, const byte_labels& labels);
inline std::vector<std::int32_t> widened(const byte_labels& labels) {
  return {labels.values.begin(), labels.values.end()};
}

} // namespace mailgrad
