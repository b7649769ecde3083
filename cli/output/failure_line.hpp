#pragma once

#include <mailgrad/tensor/device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// Makes `text` safe for a terminal, so that text written by a model cannot move the cursor. UTF-8, line
/// breaks and tabs are kept; each byte of another control character, or of invalid UTF-8, is shown as "\x1b".
std::string printable(std::string_view text);

/// While it lives, what is written to a stream is made printable, a line at a time. For a terminal, whatever
/// is shown: texts that a model generates, and names in files of others. A pipe gets raw bytes without it.
class printable_stream : std::streambuf {
public:
  explicit printable_stream(std::ostream& out) : out_(out), to_(out.rdbuf(this)) {}
  ~printable_stream() override {
    sync();
    out_.rdbuf(to_);
  }
  printable_stream(const printable_stream&) = delete;
  printable_stream& operator=(const printable_stream&) = delete;

private:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    line_.append(text, static_cast<std::size_t>(count));
    const std::size_t end = line_.rfind('\n');
    return end == std::string::npos || show(end + 1) ? count : 0;
  }
  int sync() override { return show(line_.size()) && to_->pubsync() == 0 ? 0 : -1; }
  bool show(std::size_t count) {
    const std::string shown = printable(std::string_view(line_).substr(0, count));
    line_.erase(0, count);
    const auto size = static_cast<std::streamsize>(shown.size());
    return to_->sputn(shown.data(), size) == size;
  }

  std::ostream& out_;
  std::streambuf* to_;
  std::string line_; ///< that has not ended
};

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

/// Refuses what somebody asks for: throws a std::invalid_argument with this line.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> why, Args&&... args) {
  throw std::invalid_argument(fmt::format(why, std::forward<Args>(args)...));
}

/// Lines that other threads tell, for the one that prints.
///
/// Threads any.
class lines_to_say {
public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  bool any() const {
    const std::lock_guard lock(mutex_);
    return !lines_.empty();
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// What of a run decides how much memory its GPUs need.
struct memory_needs {
  std::vector<device> devices; ///< empty if workers of other processes brought them
  std::vector<device> places;  ///< of weights; empty: the host
  std::size_t shards = 1;
  std::string precision = "float32";
  bool is_replay = false; ///< which cannot take less than its run did
};

/// What to do about a run that ended for this reason, in one line that fits the run; empty unless memory of a
/// GPU was lacking, or pinned memory of the host.
std::string memory_advice(std::string_view why, const memory_needs& run);

} // namespace mailgrad
