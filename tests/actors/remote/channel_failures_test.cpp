#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/admission.hpp>
#include <mailgrad/actors/run/run_crew.hpp>

#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/net/played_memory.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// What becomes of a channel if the layers beside it fail, or if its session ends while it is at work.

namespace mailgrad::remote {
namespace {

using net::plane;
using ::testing::HasSubstr;

/// A network without connections, which does at once what is posted.
class prompt_network final : public net::network {
public:
  std::string listen(net::server_end&, const std::string& address) override { return address; }
  void connect(net::client_end&, const std::string&) override {}
  void forget(net::endpoint&) override {}
  net::instant now() const noexcept override { return net::instant{0}; }
  void post(net::endpoint&, std::function<void(net::instant)> work) override { work(now()); }
};

/// Fails where the test says.
class failing_form final : public body_form {
public:
  std::function<void()> when_it_begins = [] {}, when_it_ends = [] {};

  explicit failing_form(std::function<void()> begins, std::function<void()> ends)
      : when_it_begins(std::move(begins)), when_it_ends(std::move(ends)) {}
  attached write(const caf::message&, const actor_address&, field_inspector&) override {
    const auto large = std::make_shared<net::bytes>(std::size_t{2} << 20);
    return {*large, large};
  }
  arriving begin(field_inspector&, const actor_address&, const actor_address&,
                 const announced& values) override {
    when_it_begins();
    place_.assign(values.bytes, std::byte{});
    return {place_, [this] {
              when_it_ends();
              return caf::make_message(worker_paused{});
            }};
  }

private:
  net::bytes place_;
};

/// A channel stands above the server's session, and what the client sends makes its layers fail.
struct FailingChannel : net::joined_sessions<layers_below_a_channel> {
  FailingChannel() {
    above_server.above = way.get();
    way->attach(end, server);
  }
  ~FailingChannel() override {
    if (way) way->give_up("the test has ended");
    far = nullptr;
    home.wait();
  }

  void take_form(std::function<void()> begins, std::function<void()> ends) {
    way->take_form(kind, std::make_unique<failing_form>(std::move(begins), std::move(ends)));
    far = way->add_far(home.system(), {duty::worker, 1});
  }
  /// A body of the client comes.
  void give() {
    ASSERT_TRUE(client.send_body(first_message_with_values(kind), *body, body));
    carry(client, server, plane::bulk);
  }
  void expect_ended(const std::string& words) {
    ASSERT_EQ(server.now_is(), net::session::state::ended);
    EXPECT_THAT(server.outcome()->words, HasSubstr(words));
  }

  const message_kind kind = kind_of(caf::make_message(worker_paused{})).value();
  run_home home{{{device_kind::cpu, 0}}};
  prompt_network network;
  std::shared_ptr<channel> way = std::make_shared<channel>(network, channel_events{});
  net::client_end end{{}, above_client, now}; // only its address counts
  std::shared_ptr<const net::bytes> body = std::make_shared<const net::bytes>(net::bytes_of("gradient"));
  caf::actor far;
};

void find_no_memory() { throw std::bad_alloc(); }
void find_no_shape() { throw std::invalid_argument("shape: 9 extents are too many"); }

TEST_F(FailingChannel, EndsItsSessionIfThereIsNoMemoryForABody) {
  take_form(find_no_memory, [] {});
  join();
  give();
  expect_ended("message: ");
}

/// The credit of the gradient that is refused goes to the next in order, which may be the same worker.
TEST_F(FailingChannel, EndsItsSessionIfAGradientIsRefusedThatHasCredit) {
  const auto credit = std::make_shared<gradient_credit>(std::vector<std::uint32_t>{0}, 1);
  std::uint32_t given = 0;
  credit->add(1, {1}, [this, &given](std::uint32_t bodies) {
    given += bodies;
    way->allow(bodies);
  });
  credit->await(0, rank{1}, {});
  take_form(
      [&] {
        const auto held = credit->arriving(1, 0);
        find_no_memory();
      },
      [] {});
  join();
  give();
  expect_ended("message: ");
  EXPECT_EQ(given, 2U);
}

TEST_F(FailingChannel, EndsItsSessionIfABodyMakesNoMessage) {
  take_form([] {}, find_no_shape);
  join();
  give();
  expect_ended("message: shape: 9 extents are too many");
}

TEST_F(FailingChannel, EndsItsSessionIfALentBodyMakesNoMessage) {
  const auto memory = std::make_shared<net::played_memory>();
  client.share(memory);
  server.share(memory);
  take_form([] {}, find_no_shape);
  join();
  give();
  expect_ended("message: shape: 9 extents are too many");
}

/// Its owner lets it go when it hears of the end.
TEST_F(FailingChannel, LivesUntilItHasLookedAtASessionThatItEnded) {
  bool was_there = false;
  const std::weak_ptr<channel> known = way;
  way = std::make_shared<channel>(network, channel_events{{}, [&](const net::ending&) {
                                                            const std::weak_ptr<channel> seen = way;
                                                            way.reset();
                                                            was_there = !seen.expired();
                                                          }});
  above_server.above = way.get();
  way->attach(end, server);
  way->take_form(kind, std::make_unique<failing_form>([] {}, [] {}));
  way->post({duty::worker, 1}, {}, kind, caf::make_message(worker_paused{})); // waits until it is joined
  client.attach(plane::control, now);
  carry(client, server, plane::control);
  server.attach(plane::control, now);
  carry(server, client, plane::control);
  client.attach(plane::bulk, now);
  carry(client, server, plane::bulk);
  server.attach(plane::bulk, now);
  expect_ended("a message of 2 MiB is more than the 1 MiB that a session carries");
  EXPECT_TRUE(was_there) << "flush() still reads its members";
}

} // namespace
} // namespace mailgrad::remote
