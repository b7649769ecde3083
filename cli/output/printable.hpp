#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

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
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;
  bool show(std::size_t count);

  std::ostream& out_;
  std::streambuf* to_;
  std::string line_; ///< that has not ended
};

} // namespace mailgrad
