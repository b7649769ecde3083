#include <mailgrad/net/listen_address.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MemoryAddress, IsReadAndWritten) {
  EXPECT_TRUE(is_memory_address("memory:run-7"));
  EXPECT_FALSE(is_memory_address("127.0.0.1:7000"));
  EXPECT_FALSE(is_memory_address("memory"));
  EXPECT_EQ(parse_memory_listen_address("memory:run-7"), "run-7");
  EXPECT_EQ(parse_memory_server_address("memory:a.B_9-"), "a.B_9-");
  EXPECT_EQ(memory_address("run-7"), "memory:run-7");
}

TEST(MemoryAddress, NeedsANameToConnectAlone) {
  EXPECT_EQ(parse_memory_listen_address("memory:"), "");
  EXPECT_THAT([] { parse_memory_server_address("memory:"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'memory:' is no address in the memory of this "
                                                             "machine: expected memory:NAME with 1 to 64")));
}

TEST(MemoryAddress, RefusesOtherNames) {
  for (const std::string& text :
       {std::string("memory:a b"), std::string("memory:/dev/shm"), std::string("memor"),
        "memory:" + std::string(65, 'x'), std::string("memory:a\0b", 10)}) {
    EXPECT_THROW(parse_memory_listen_address(text), std::invalid_argument) << text;
    EXPECT_THROW(parse_memory_server_address(text), std::invalid_argument) << text;
  }
  EXPECT_EQ(parse_memory_listen_address("memory:" + std::string(64, 'x')).size(), 64U);
}

} // namespace
} // namespace mailgrad::net
