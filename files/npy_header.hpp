#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace mailgrad {

/// The type of the numbers of an array of numpy.
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
///
/// Source  numpy.lib.format: versions 1, 2 and 3.
/// Errors  file_error, naming `file`: no numpy array, an unknown version, or a text that is too long.
npy_text_place parse_npy_preamble(const std::filesystem::path& file, std::string_view who,
                                  std::string_view bytes);

/// Reads the text, a literal of Python as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
///
/// Errors  file_error: not such a text; numbers that are no plain numbers, such as Python objects; too many
///         axes; more numbers than memory can hold.
npy_header parse_npy_text(const std::filesystem::path& file, std::string_view who, std::string_view text);

/// The bytes that stand before the numbers of an array of float32 or of bytes. Their number is a multiple of
/// 64.
std::string npy_header_for(npy_number n, const shape& dims);

} // namespace mailgrad
