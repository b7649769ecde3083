#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>

// Messages of a process that is not as it should be.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;

worker_paused paused(std::uint32_t worker) {
  worker_paused x;
  x.worker = {worker};
  return x;
}

/// A feeder that answers nothing.
class silent_feeder {
public:
  static constexpr const char* name = "silent-feeder";

  explicit silent_feeder(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior() {
    return {messaging::on(self_, [](const next_batch&) {})};
  }

private:
  caf::event_based_actor* self_;
};

/// A channel whose other process says what the test says.
struct Channel : ::testing::Test {
  ~Channel() override {
    way->ended({net::end_reason::left, "the test has ended"});
    far.clear();
    home.wait();
  }

  void stand_in_for(actor_address a) { far.push_back(way->add_far(home.system(), a)); }

  /// A message for the coordinator, or for who takes it instead.
  template <class Message>
  net::bytes message(actor_address from, Message x) {
    net::bytes bytes;
    const auto write = [](net::frame_writer& w, actor_address a) {
      w.u8(static_cast<std::uint8_t>(a.what)).u32(a.number);
    };
    net::frame_writer head(bytes);
    head.u64(next++);
    const message_kind kind = kind_of(caf::make_message(x)).value();
    duty to = duty::coordinator;
    for (const duty other : {duty::feeder, duty::shard})
      if (!may_be_sent_to(kind, to)) to = other;
    write(head, {to});
    write(head, from);
    head.u16(kind).u8(0);
    const address_book nobody;
    byte_archive_writer fields;
    field_inspector inspector(fields, nobody);
    write_fields(kind, caf::make_message(x), inspector);
    head.raw(net::as_bytes(fields.bytes()));
    return bytes;
  }
  void expect_refused(const net::bytes& said, const std::string& words) {
    EXPECT_THAT([&] { way->message_came(said); },
                ::testing::ThrowsMessage<net::protocol_error>(HasSubstr(words)));
  }

  run_home home{{{device_kind::cpu, 0}}};
  net::tcp_network network;
  std::shared_ptr<channel> way = std::make_shared<channel>(network, channel_events{});
  std::vector<caf::actor> far;
  std::uint64_t next = 0;
};

TEST_F(Channel, TakesWhatAnActorOfTheOtherProcessMaySay) {
  stand_in_for({duty::worker, 1});
  EXPECT_NO_THROW(way->message_came(message({duty::worker, 1}, paused(1))));
}

TEST_F(Channel, TakesNothingOfAnActorThatLivesElsewhere) {
  stand_in_for({duty::worker, 1});
  expect_refused(message({duty::worker, 2}, paused(2)), "expected no worker_paused from worker 2");
  way->add({duty::shard, 0}, far.front()); // one that other processes reach through this one
  expect_refused(message({duty::shard, 0}, policy_switched{}), "expected no policy_switched from shard 0");
}

TEST_F(Channel, TakesNoWordsThatSuchAnActorDoesNotHave) {
  stand_in_for({duty::worker, 1});
  expect_refused(message({duty::worker, 1}, policy_switched{}), "expected no policy_switched from worker 1");
  expect_refused(message({}, worker_lost{}), "expected no worker_lost from nobody");
}

TEST_F(Channel, TakesNothingAboutAnother) {
  stand_in_for({duty::worker, 1});
  stand_in_for({duty::shard, 1});
  expect_refused(message({duty::worker, 1}, paused(2)),
                 "expected one about worker 1, which sent it, found one about worker 2");
}

/// What nobody says is checked as well as what an actor says.
TEST_F(Channel, TakesNothingAboutAnotherOfNobody) {
  stand_in_for({duty::worker, 1});
  expect_refused(message({}, paused(2)),
                 "expected one about an actor of that process, found one about worker 2");
  EXPECT_NO_THROW(way->message_came(message({}, paused(1))));
}

TEST_F(Channel, TakesNothingOfOneShardAboutAnother) {
  stand_in_for({duty::shard, 0});
  stand_in_for({duty::shard, 2});
  policy_switched x;
  x.shard = {2};
  expect_refused(message({duty::shard, 0}, x),
                 "expected one about shard 0, which sent it, found one about shard 2");
}

/// What is not answered lies in a mailbox, so there must not be more and more of it.
TEST_F(Channel, TakesNoThirdQuestionThatIsNotAnswered) {
  stand_in_for({duty::worker, 1});
  way->add({duty::feeder}, messaging::spawn<silent_feeder>(home.system()));
  const auto ask = [&] { return message({duty::worker, 1}, next_batch{{1}}); };
  way->message_came(ask());
  way->message_came(ask());
  expect_refused(ask(), "expected at most 2 next_batch that the feeder has not answered, found one more");
}

TEST_F(Channel, LoadsNoPlugInThatAnotherProcessNames) {
  stand_in_for({duty::coordinator});
  switch_policy x;
  x.policy = "./library.so:1";
  expect_refused(message({duty::coordinator}, x), "plug-in is loaded by the process that names it");
}

} // namespace
} // namespace mailgrad::remote
