#pragma once

#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

namespace mailgrad::net {

/// Two sessions that the test carries frames between.
struct SessionTest : joined_sessions<> {
  void expect_both_ended(end_reason why) {
    ASSERT_THAT(above_client.ends, testing::SizeIs(1));
    ASSERT_THAT(above_server.ends, testing::SizeIs(1));
    EXPECT_EQ(above_client.ends[0].reason, why) << above_client.ends[0].words;
    EXPECT_EQ(above_server.ends[0].reason, why) << above_server.ends[0].words;
  }
};

} // namespace mailgrad::net
