#pragma once

#include <mailgrad/tensor/device.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// Pads a word to the width of the first column of the summary.
inline std::string summary_column(std::string word) {
  constexpr std::size_t width = 14;
  word.resize(std::max(word.size() + 1, width), ' ');
  return word;
}

/// Breaks lines of a summary that are wider than so many columns between words. What follows stands in the
/// second column. Lines that begin with a space, such as those of a table or a text, stay as they are.
std::string fitted_lines(const std::string& text, std::size_t columns);

/// The same for the terminal that this descriptor is; no line is broken for a file or a pipe.
std::string fitted_to(int descriptor, const std::string& text);

/// Prints "mailgrad: WORDS" as a line of standard error by one write. Ranks of a launcher share that stream,
/// so parts of a line could come between the parts of another's. Names of the library in brackets, which are
/// for who writes C++, are left out.
void say_failure(std::string_view words);

/// Prints "mailgrad: warning: WORDS" in the same way, fitted to the terminal: what looks like a mistake, and
/// stops nothing.
void say_warning(std::string_view words);

/// Prints "WORDS" in the same way: what is no failure.
void say_line(std::string_view words);

/// What of a run decides how much memory its cards need.
struct memory_needs {
  std::vector<device> devices; ///< empty if workers of other processes brought them
  std::vector<device> places;  ///< of weights; empty: the host
  std::size_t shards = 1;
  std::string precision = "float32";
  bool is_replay = false; ///< which cannot take less than its run did
};

/// What to do about a run that ended for this reason, in one line that fits the run; empty unless memory of a
/// card was lacking, or pinned memory of the host.
std::string memory_advice(std::string_view why, const memory_needs& run);

} // namespace mailgrad
