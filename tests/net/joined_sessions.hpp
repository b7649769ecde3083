#pragma once

#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/played_layers.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace mailgrad::net {

/// Both sides of a session, whose bytes are carried by hand.
template <class Layers = played_layers>
struct joined_sessions : testing::Test {
  static constexpr welcome terms{.run = 7,
                                 .session = 9,
                                 .you = {role::worker, 2},
                                 .incarnation = 3,
                                 .messages = 4,
                                 .bodies = 2,
                                 .bodies_of_client = 2,
                                 .most_body_bytes = 1 << 20};

  instant now = std::chrono::seconds{10};
  Layers above_client, above_server;
  session client{hello{}, above_client, now};
  session server{terms, above_server, now};

  /// All that one side has to say on a connection arrives at the other. Returns the kinds of the frames.
  std::vector<frame_kind> carry(session& from, session& to, plane p) {
    std::vector<frame_kind> kinds;
    while (const auto frame = from.next(p, now)) {
      kinds.push_back(decode_header(frame->header).kind);
      if (kinds.back() != frame_kind::hello) to.receive(p, on_the_wire(*frame), now);
    }
    return kinds;
  }
  void carry_all() {
    for (int round = 0; round < 3; ++round)
      for (const plane p : {plane::control, plane::bulk}) {
        carry(client, server, p);
        carry(server, client, p);
      }
  }
  void join() {
    client.attach(plane::control, now);
    carry(client, server, plane::control);
    server.attach(plane::control, now);
    carry(server, client, plane::control);
    ASSERT_TRUE(client.wants_bulk());
    client.attach(plane::bulk, now);
    carry(client, server, plane::bulk);
    server.attach(plane::bulk, now);
    carry_all();
    ASSERT_EQ(client.now_is(), session::state::joined);
    ASSERT_EQ(server.now_is(), session::state::joined);
  }
  /// Time passes for one side alone, or for both. Nobody stands still meanwhile.
  template <class... Sides>
  void let_pass(instant span, Sides&... sides) {
    for (const instant end = now + span; now < end;) {
      now = std::min<instant>(end, now + timing::usual_heartbeat);
      (sides.tick(now), ...);
    }
  }
  static bytes taken(session& from, plane p, instant now) {
    const auto frame = from.next(p, now);
    if (!frame) throw std::logic_error("there is no frame");
    return on_the_wire(*frame);
  }
};

} // namespace mailgrad::net
