#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// The type of the numbers of an array of numpy. npy_file.cpp has a table in this order.
enum class npy_number : std::uint8_t { f64, f32, f16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

std::size_t byte_size(npy_number n) noexcept;

/// What an array of numpy tells of itself before its numbers.
struct npy_header {
  npy_number numbers = npy_number::f32;
  shape dims;
  bool is_big_endian = false;
  bool is_fortran = false; ///< the first axis runs fastest, and there are two or more
};

/// With these bytes every array of numpy begins.
inline constexpr std::string_view npy_magic = "\x93NUMPY";
/// The bytes before the text of a header: the magic number, the version and the length.
inline constexpr std::size_t npy_preamble = 12;
/// The longest text of a header that is read. That of an array of eight axes has about 200 bytes.
inline constexpr std::size_t longest_npy_header = std::size_t{1} << 16;

/// How long the text of a header is, and where it begins.
struct npy_text_place {
  std::size_t begin = 0;
  std::size_t length = 0;
};

/// Reads the preamble. `who` names the array in messages: "array 'x_train'".
/// Source  numpy.lib.format: versions 1, 2 and 3.
/// Errors  file_error, naming `file`: no numpy array, an unknown version, or a text that is too long.
npy_text_place parse_npy_preamble(const std::filesystem::path& file, std::string_view who,
                                  std::string_view bytes);

/// Reads the text, a literal of Python as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
/// Errors  file_error: not such a text; numbers that are no plain numbers, such as Python objects; too many
///         axes; more numbers than memory can hold.
npy_header parse_npy_text(const std::filesystem::path& file, std::string_view who, std::string_view text);

/// The bytes that stand before the numbers of an array of float32 or of bytes. Their number is a multiple of
/// 64.
std::string npy_header_for(npy_number n, const shape& dims);

/// Converts numbers of type `from`, little endian, to.size() of them. Returns the place of the first that is
/// beyond float32; to.size() if all fit.
std::size_t convert_numbers(npy_number from, const char* bytes, std::span<float> to);

/// The bytes of an npy file one after the other, wherever they lie: in a file or in an entry of an archive.
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
  /// memory, as its file has it, from the first number to the last. A whole number of more than 53 bits is
  /// rounded to the next double.
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
