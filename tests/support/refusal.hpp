#pragma once

#include <gmock/gmock.h>

#include <exception>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

// Checks that functions refuse wrong shapes, wrong lengths and null pointers with an exception of one
// line. The sanitizers check that nothing is read before that.

namespace mailgrad::testing {

/// Matches a call that throws an `Error` with all these words.
template <class Error, class... Words>
auto throws(const Words&... words) {
  return ::testing::ThrowsMessage<Error>(::testing::AllOf(::testing::HasSubstr(words)...));
}

/// Words, and the line they stand in.
struct words_here {
  template <class Text>
  words_here(const Text& text, std::source_location line = std::source_location::current())
      : words(text), where(line) {}

  std::string words;
  std::source_location where;
};

/// Matches a call in the same EXPECT_THAT that throws an `Error` with these words and its file and line.
template <class Error, class... Words>
auto throws_here(const words_here& first, const Words&... others) {
  const std::string file = first.where.file_name();
  const std::string line = ':' + std::to_string(first.where.line());
  return throws<Error>(file.substr(file.rfind('/') + 1) + line, first.words, others...);
}

/// The words of the exception that `call` throws; empty if it throws none.
template <class Call>
std::string words_of_refusal(const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

struct misuse {
  std::string what;
  std::function<void()> call;
  std::string says; ///< a part of the expected line
};

/// Expects an `Error` of one line that has the words `says`.
template <class Error = std::exception>
void expect_refused(const std::string& what, const std::string& says, const std::function<void()>& call) {
  SCOPED_TRACE(what);
  try {
    call();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& e) {
    const std::string line = e.what();
    EXPECT_THAT(line, ::testing::HasSubstr(says));
    EXPECT_EQ(line.find('\n'), std::string::npos) << "more than one line: " << line;
    EXPECT_FALSE(line.starts_with("vector::") || line.starts_with("bad_"))
        << "words of the library: " << line;
  }
}
template <class Error = std::exception>
void expect_refused(const std::string& says, const std::function<void()>& call) {
  expect_refused<Error>(says, says, call);
}
inline void expect_refused(const misuse& m) { expect_refused(m.what, m.says, m.call); }
inline void expect_refused(const std::vector<misuse>& all) {
  for (const misuse& m : all) expect_refused(m);
}

} // namespace mailgrad::testing
