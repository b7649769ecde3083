#pragma once

#include <mailgrad/tensor/error.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace mailgrad {

/// A file cannot be read, or does not hold what its format promises; `what()` is one line for the user.
class file_error : public std::system_error {
public:
  file_error(std::error_code code, std::string_view what) : std::system_error(code), text_(what) {}
  const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_; ///< without the category's own words, which std::system_error would append
};

/// A place in a file: a byte, counted from 0, or a line of a text, counted from 1. Bytes are counted in the
/// unpacked file, but in the gzip file itself where that is damaged.
struct file_offset {
  std::uint64_t value = 0;
};
struct file_line {
  std::uint64_t value = 0;
};

/// "FILE: offset 4: expected 60000 images, found 1024 bytes"
[[noreturn]] void throw_malformed(const std::filesystem::path& file, file_offset where,
                                  std::string_view what);
[[noreturn]] void throw_malformed(const std::filesystem::path& file, file_line where, std::string_view what);
/// For the file as a whole: "FILE: expected a label, found nothing"
[[noreturn]] void throw_malformed(const std::filesystem::path& file, std::string_view what);

/// The system refused the file: "FILE: cannot be read: No such file or directory"
[[noreturn]] void throw_unreadable(const std::filesystem::path& file, int code);

/// The system refused to write: "FILE: cannot be written: No space left on device"
[[noreturn]] void throw_unwritable(const std::filesystem::path& file, int code);

/// Text of a file for one line of a message: in quotes, cut when long, with control characters escaped.
std::string in_quotes(std::string_view found);

/// The same without quotes, for a name within other words.
std::string legible(std::string_view found);

/// "0x00000803"
std::string in_hex(std::uint32_t number);

} // namespace mailgrad
