#include <mailgrad/engine/account/tensorboard_file.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace mailgrad {
namespace {

using namespace std::string_view_literals;

/// The expected bytes were written by TensorBoard's own RecordWriter.
TEST(TfRecord, IsWhatTensorBoardWrites) {
  EXPECT_EQ(tf_record("123456789"), "\x09\0\0\0\0\0\0\0\x37\xf9\x71\x39"
                                    "123456789"
                                    "\xe5\xb0\x8a\xc7"sv);
}

TEST(TfRecord, MayHoldNothing) {
  EXPECT_EQ(tf_record(""), "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"sv);
}

} // namespace
} // namespace mailgrad
