#pragma once

#include <mailgrad/files/safetensors.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// The header of a safetensors file.
struct parsed_header {
  std::vector<stored_array> arrays; ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Reads a header, and checks that its arrays fill `data_bytes` bytes exactly.
///
/// Errors  file_error, naming `file`.
parsed_header parse_safetensors_header(const std::filesystem::path& file, std::string_view text,
                                       std::uint64_t data_bytes);

} // namespace mailgrad
