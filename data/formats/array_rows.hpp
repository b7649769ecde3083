#pragma once

#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// The samples of an array of numpy without answers, read one after the other. The first axis counts them.
///
/// The other axes are those of a sample, where axes of extent 1 count for nothing; or they are one axis with
/// all its numbers.
/// Errors  file_error: samples of another shape, a number that is infinite or NaN, and as npy_file.
/// Threads one caller at a time.
class array_rows {
public:
  /// `dims` is the shape of a sample; it has a number.
  array_rows(const std::filesystem::path& file, const shape& dims);

  /// Appends the numbers of the next sample. False at the end, and nothing is appended then.
  bool next(std::vector<float>& to);

private:
  npy_file array_;
  std::size_t numbers_;  ///< of a sample
  std::size_t done_ = 0; ///< samples that have been read
};

} // namespace mailgrad
