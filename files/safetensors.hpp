#pragma once

#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// How a safetensors file writes the numbers of an array.
enum class stored_number : std::uint8_t { f64, f32, f16, bf16, other };

/// An array in a safetensors file.
struct stored_array {
  std::string name;
  std::string type; ///< as the file says: "F32", "BF16", "I64"
  stored_number numbers = stored_number::other;
  shape dims;
  std::uint64_t begin = 0; ///< first byte, counted from the end of the header
  std::uint64_t end = 0;   ///< one past the last byte
};

/// A safetensors file, open for reading: named arrays of numbers, and a table of texts about them.
///
/// The header is checked whole before memory is taken for any number: names come once, each length is that of
/// its shape and type, and the arrays fill the rest of the file without gaps and without sharing a byte.
///
/// Source  Hugging Face, "Safetensors", format of version 0.4: 8 bytes with the length of the header, the
///         header as JSON, the numbers; all little endian. github.com/huggingface/safetensors
/// Errors  file_error in one line with the offset, what was expected and what was found.
/// Threads one caller at a time.
class safetensors_file {
public:
  /// The longest header that is read, in bytes. It is the limit of the format.
  static constexpr std::uint64_t longest_header = 100'000'000;

  explicit safetensors_file(const std::filesystem::path& path);

  /// The arrays, in the order of their bytes.
  const std::vector<stored_array>& arrays() const noexcept { return arrays_; }
  /// The texts of "__metadata__".
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// The array of that name, or null.
  const stored_array* find(std::string_view name) const noexcept;

  /// Reads the numbers of an array as float32: a wider number is rounded to the nearest one.
  /// Errors  file_error also for numbers of a type that is not a float, or a value that float32 cannot hold;
  ///         std::invalid_argument for another length of `to`.
  void read(const stored_array& what, std::span<float> to);

private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t data_begin_ = 0; ///< offset of the first number in the file
  std::vector<stored_array> arrays_;
  std::map<std::string, std::string> metadata_;
};

/// An array to be written.
struct array_to_store {
  std::string name;
  shape dims;
  std::span<const float> values;
};

/// Writes a safetensors file of float32. The file takes the place of an older one when all of it is on the
/// disk; a failure leaves the older one as it was.
/// Errors  std::invalid_argument for a name that comes twice or is "__metadata__", or values that do not fit
///         their shape; file_error if the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const array_to_store> arrays,
                       const std::map<std::string, std::string>& metadata,
                       replaced_file::if_link link = replaced_file::if_link::followed);

/// The header of a safetensors file.
struct parsed_header {
  std::vector<stored_array> arrays; ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Reads a header, and checks that its arrays fill `data_bytes` bytes exactly.
/// Errors  file_error, naming `file`.
parsed_header parse_safetensors_header(const std::filesystem::path& file, std::string_view text,
                                       std::uint64_t data_bytes);

} // namespace mailgrad
