#pragma once

#include <mailgrad/data/parsed_limit.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mailgrad {

/// A text as a stream of characters, each a number below symbols.size().
struct text_corpus {
  std::vector<std::string> symbols; ///< each character that occurs, in UTF-8, in the order of Unicode
  std::vector<std::int32_t> tokens;
};

/// Reads UTF-8 text, plain or gzip, character by character.
///
/// Errors  file_error: the file is empty, no UTF-8, or longer than `limit` at 4 bytes a character.
text_corpus read_text(const std::filesystem::path& file, const parsed_limit& limit = {});

} // namespace mailgrad
