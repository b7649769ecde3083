#pragma once

#include <mailgrad/files/npy_header.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// Converts numbers of type `from`, little endian, to.size() of them. Returns the place of the first that
/// `to` cannot hold, one beyond float32 or a fraction among whole numbers; to.size() if all fit. A whole
/// number of more than 53 bits is rounded to the next double.
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<float> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<double> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int64_t> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::int32_t> to);
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<std::uint8_t> to);

/// The bytes of an npy file one after the other, wherever they lie: in a file or in an entry of an archive.
///
/// Errors  file_error, from every function: the bytes are damaged or cannot be read.
class npy_bytes {
public:
  virtual ~npy_bytes() = default;
  /// Fills `to` and returns the number of bytes filled, which is less than asked for only at the end.
  virtual std::size_t read(std::span<char> to) = 0;
  /// How many bytes are still to come. Of packed bytes it is the most that there may be.
  virtual std::uint64_t left() const = 0;
  virtual bool is_packed() const = 0;
};

/// One array of numbers as numpy.save writes it, open for reading from its first number to its last.
///
/// The constructor reads the header alone. The size that the header states is compared with the bytes that
/// are there, so the caller may take memory for the numbers: a plain file has exactly as many bytes, and a
/// packed one could hold them. What follows the last number is refused when that has been read; then the
/// checksum of packed bytes has been compared, too.
///
/// Source  numpy.lib.format.
/// Errors  file_error in one line with the array, what was expected and what was found; Python objects are
///         refused, since reading them would run code of the file.
/// Threads one caller at a time.
class npy_file {
public:
  /// A file, plain or packed with gzip. The array is called as the file is, without its suffix.
  explicit npy_file(const std::filesystem::path& file);
  /// An array called `name` in `file`.
  npy_file(std::filesystem::path file, std::string name, std::unique_ptr<npy_bytes> bytes);

  /// Whether `file` is a regular file, plain or packed with gzip, and begins as arrays of numpy do.
  static bool is_npy(const std::filesystem::path& file);

  const std::filesystem::path& file() const noexcept { return file_; }
  const std::string& name() const noexcept { return name_; }
  const npy_header& header() const noexcept { return header_; }
  /// The numbers that have not been read.
  std::size_t left() const noexcept { return header_.dims.size() - done_; }

  /// Reads the next numbers, in row-major order, and converts them. An array in Fortran order is held in
  /// memory, as its file has it, from the first number to the last.
  ///
  /// Errors  file_error also for a number that `to` cannot hold: one beyond float32, or a fraction among
  ///         whole numbers; std::invalid_argument for more numbers than are left.
  void read(std::span<float> to);
  void read(std::span<double> to);
  void read(std::span<std::int64_t> to);
  void read(std::span<std::int32_t> to);
  void read(std::span<std::uint8_t> to);

  /// Throws a file_error: "FILE: array 'NAME': what".
  [[noreturn]] void fail(std::string_view what) const;

private:
  std::string take(std::size_t count);
  void take(std::span<char> to);
  void read_header();
  void require_size() const;
  void require_end();
  void take_next(std::span<char> to, std::size_t width);
  template <class To>
  void read_as(std::span<To> to);

  std::filesystem::path file_;
  std::string name_;
  std::unique_ptr<npy_bytes> bytes_;
  npy_header header_;
  std::string columns_;  ///< all numbers of an array in Fortran order
  std::size_t done_ = 0; ///< numbers that have been read
};

} // namespace mailgrad
