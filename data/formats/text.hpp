#pragma once

#include <mailgrad/data/sample_array.hpp>

namespace mailgrad {

/// A text as a stream of tokens. Each token stands for one character and is an index into `symbols`.
struct text_corpus {
  std::vector<std::string> symbols; ///< the characters that occur, in UTF-8, in the order of Unicode
  std::vector<std::int32_t> tokens;
};

/// Reads UTF-8 text, plain or gzip, character by character. A byte-order mark at the beginning is dropped,
/// and a Windows line end counts as one character, "\n".
/// Errors  file_error: the file is empty or no UTF-8, or its tokens, of 4 bytes each, take more than `limit`.
text_corpus read_text(const std::filesystem::path& file, const parsed_limit& limit = {});

/// Numbers the characters as `symbols` says, in place of the order of Unicode.
/// Errors  file_error, naming `file`, for a character that is not among them.
void number_as(const std::filesystem::path& file, const std::vector<std::string>& symbols,
               text_corpus& corpus);

} // namespace mailgrad
