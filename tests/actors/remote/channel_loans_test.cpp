#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/run/run_crew.hpp>

#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/net/played_memory.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// What becomes of values that the other process lends.

namespace mailgrad::remote {
namespace {

using net::frame_kind, net::plane;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Takes values where they lie, or in a place of its own.
class played_form final : public body_form {
public:
  struct what_came {
    bool has_place = false;
    std::string place;
    std::shared_ptr<const void> keeps;
  };

  explicit played_form(std::shared_ptr<what_came> to) : to_(std::move(to)) {}
  attached write(const caf::message&, const actor_address&, field_inspector&) override { return {}; }
  arriving begin(field_inspector&, const actor_address&, const actor_address&,
                 const announced& values) override {
    if (to_->has_place)
      to_->place.assign(values.bytes, '\0');
    else
      to_->keeps = values.lent->keeps;
    return {std::as_writable_bytes(std::span(to_->place)), [] { return caf::make_message(worker_paused{}); }};
  }

private:
  std::shared_ptr<what_came> to_;
};

/// The client lends, and a channel stands above the server's session.
struct ChannelLoans : net::joined_sessions<layers_below_a_channel> {
  ChannelLoans() {
    above_server.above = way.get();
    way->attach(end, server);
    way->take_form(kind, std::make_unique<played_form>(came));
    far = way->add_far(home.system(), {duty::worker, 1});
    const auto memory = std::make_shared<net::played_memory>();
    client.share(memory);
    server.share(memory);
  }
  ~ChannelLoans() override {
    way->ended({net::end_reason::left, "the test has ended"});
    far = nullptr;
    home.wait();
  }

  void give() {
    ASSERT_TRUE(client.send_body(first_message_with_values(kind), *body, body));
    carry(client, server, plane::bulk);
  }
  std::vector<frame_kind> said_after_work() {
    network.do_all();
    return carry(server, client, plane::bulk);
  }

  const message_kind kind = kind_of(caf::make_message(worker_paused{})).value();
  run_home home{{{device_kind::cpu, 0}}};
  waiting_network network;
  std::shared_ptr<channel> way = std::make_shared<channel>(network, channel_events{});
  net::client_end end{{}, above_client, now}; // only its address counts
  std::shared_ptr<played_form::what_came> came = std::make_shared<played_form::what_came>();
  std::shared_ptr<const net::bytes> body = std::make_shared<const net::bytes>(net::bytes_of("gradient"));
  caf::actor far;
};

TEST_F(ChannelLoans, AreGivenBackWhenNobodyHoldsThemAnyMore) {
  join();
  give();
  ASSERT_TRUE(came->keeps);
  EXPECT_THAT(said_after_work(), IsEmpty());
  EXPECT_EQ(body.use_count(), 2);
  came->keeps.reset();
  EXPECT_THAT(said_after_work(), ElementsAre(frame_kind::returned));
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(ChannelLoans, AreCopiedToThePlaceOfAFormAndGivenBackAtOnce) {
  came->has_place = true;
  join();
  give();
  EXPECT_EQ(came->place, "gradient");
  EXPECT_THAT(said_after_work(), ElementsAre(frame_kind::returned));
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(ChannelLoans, AreForgottenWithTheirSession) {
  join();
  give();
  server.leave("enough", now);
  came->keeps.reset();
  EXPECT_THAT(network.posted, IsEmpty());
}

} // namespace
} // namespace mailgrad::remote
