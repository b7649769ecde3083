#include <mailgrad/options/spelling.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(ShellWord, IsQuotedWhereAShellWouldReadItOtherwise) {
  EXPECT_EQ(shell_word("runs/lenet-2.safetensors"), "runs/lenet-2.safetensors");
  EXPECT_EQ(shell_word("run c"), "'run c'");
  EXPECT_EQ(shell_word("~/a"), "'~/a'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

} // namespace
} // namespace mailgrad
