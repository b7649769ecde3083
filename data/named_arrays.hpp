#pragma once

#include <mailgrad/data/sample_array.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

struct named_array {
  std::string name; ///< that of the model's input which the array feeds
  sample_array values;
};

/// The arrays of a data set, under the names of the model's inputs that read them: "image" and "meta", or
/// only "features".
///
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

} // namespace mailgrad
