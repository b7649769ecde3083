#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

// Checks that functions refuse wrong shapes, wrong lengths and null pointers with an exception of one
// line. The sanitizers check that nothing is read before that.

namespace mailgrad::testing {

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

inline void expect_refused(const misuse& m) {
  SCOPED_TRACE(m.what);
  try {
    m.call();
    ADD_FAILURE() << "was not refused";
  } catch (const std::exception& e) {
    const std::string line = e.what();
    EXPECT_THAT(line, ::testing::HasSubstr(m.says));
    EXPECT_EQ(line.find('\n'), std::string::npos) << "more than one line: " << line;
    EXPECT_FALSE(line.starts_with("vector::") || line.starts_with("bad_"))
        << "words of the library: " << line;
  }
}

inline void expect_refused(const std::vector<misuse>& all) {
  for (const misuse& m : all) expect_refused(m);
}

} // namespace mailgrad::testing
