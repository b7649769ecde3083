#include <mailgrad/options/spelling.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(WholeName, IsReplacedWhereverItStandsWhole) {
  EXPECT_EQ(with_name_replaced("a.so", "a.so", "/x/a.so"), "/x/a.so");
  EXPECT_EQ(with_name_replaced("async, ./a.so:2@100, ./a.so", "./a.so", "/x/a.so"),
            "async, /x/a.so:2@100, /x/a.so");
}

TEST(WholeName, StaysWithinALongerOne) {
  for (const char* text : {"lib/a.so", "a.so.1", "ba.so:2", "async"})
    EXPECT_EQ(with_name_replaced(text, "a.so", "/x/a.so"), text);
  EXPECT_EQ(with_name_replaced("lib/a.so, a.so", "a.so", "b"), "lib/a.so, b");
  EXPECT_EQ(with_name_replaced("a.so", "", "b"), "a.so");
}

/// As a fact of a run has it.
TEST(WholeName, MayStandInParentheses) {
  EXPECT_EQ(with_name_replaced("mine (./a.so) 0.9", "./a.so", "/x/a.so"), "mine (/x/a.so) 0.9");
}

} // namespace
} // namespace mailgrad
