#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

#include <new>
#include <string>

// A peer that asks for too much, or says what there is not.

namespace mailgrad::net {
namespace {

using ::testing::HasSubstr;

struct layers_without_memory : played_layers {
  std::span<std::byte> place_of_body(byte_view, std::uint64_t) override { throw std::bad_alloc(); }
};

struct SessionWithoutMemory : joined_sessions<layers_without_memory> {};

TEST_F(SessionWithoutMemory, EndsAndLeavesTheProcessAlone) {
  join();
  const bytes body(10);
  ASSERT_TRUE(client.send_body(bytes_of("tag"), body, nullptr));
  carry(client, server, plane::bulk);
  ASSERT_EQ(server.now_is(), session::state::ended);
  EXPECT_EQ(server.outcome()->reason, end_reason::failed);
  EXPECT_THAT(server.outcome()->words, HasSubstr("bad_alloc"));
}

struct SessionWords : joined_sessions<> {};

TEST_F(SessionWords, NameTheReasonsThatThereAre) {
  join();
  client.leave("why", now);
  auto last = *client.next(plane::control, now);
  last.payload.front() = std::byte{11};
  server.receive(plane::control, whole_frame(decode_header(last.header), last.payload), now);
  ASSERT_EQ(server.now_is(), session::state::ended);
  EXPECT_THAT(server.outcome()->words, HasSubstr("expected a reason, found 11"));
}

} // namespace
} // namespace mailgrad::net
