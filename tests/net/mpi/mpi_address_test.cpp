#include <mailgrad/net/listen_address.hpp>

#include <gtest/gtest.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

TEST(MpiAddress, NamesARank) {
  EXPECT_EQ(parse_mpi_address("mpi:0"), 0);
  EXPECT_EQ(parse_mpi_address(mpi_address(4711)), 4711);
  EXPECT_TRUE(is_mpi_address("mpi:"));
  EXPECT_FALSE(is_mpi_address("memory:mpi"));
}

TEST(MpiAddress, IsRefusedIfItNamesNone) {
  for (const char* wrong :
       {"mpi:", "mpi:-1", "mpi:x", "mpi:1x", "0", "", "mpi:10000000", "mpi:99999999999999999999"})
    EXPECT_THROW(parse_mpi_address(wrong), std::invalid_argument) << wrong;
}

} // namespace
} // namespace mailgrad::net
