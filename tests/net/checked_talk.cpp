#include <mailgrad/tests/net/checked_talk.hpp>

#include <algorithm>

namespace mailgrad::net {

namespace {

using namespace std::chrono_literals;

std::byte pattern(std::uint64_t number, std::size_t i) { return static_cast<std::byte>(number * 31 + i); }

} // namespace

void checked_talk::joined(const welcome& terms) {
  terms_ = terms;
  if (book().joined[mine_]) notes_->fault("a session was joined twice");
  book().joined[mine_] = true;
  talk_later();
}

void checked_talk::check_alive(const char* what) {
  if (over_) notes_->fault(std::string(what) + " came after the end");
  if (dead_) notes_->fault(std::string(what) + " came to a dead process");
  if (!is_current()) notes_->fault(std::string(what) + " of a dead incarnation was delivered");
}

void checked_talk::message_came(byte_view message) {
  check_alive("a message");
  frame_reader reader{"test", message};
  if (reader.u64() != terms_.session) notes_->fault("a message of another session was delivered");
  if (const auto number = reader.u64(); number != in().messages_came)
    notes_->fault("message " + std::to_string(number) + " came in the place of " +
                  std::to_string(in().messages_came));
  ++in().messages_came;
  allow_later(1, 0);
}

std::span<std::byte> checked_talk::place_of_body(byte_view, std::uint64_t size) {
  check_alive("a body");
  place_.assign(size, std::byte{0});
  return place_;
}

void checked_talk::body_came(byte_view tag) {
  check_alive("a body");
  frame_reader reader{"test", tag};
  if (reader.u64() != terms_.session) notes_->fault("a body of another session was delivered");
  const std::uint64_t number = reader.u64();
  if (number != in().bodies_came) notes_->fault("a body came out of order");
  for (std::size_t i = 0; i < place_.size(); i += 997)
    if (place_[i] != pattern(number, i)) notes_->fault("a body has other bytes than were sent");
  ++in().bodies_came;
  allow_later(0, 1);
}

void checked_talk::ended(const ending& why) {
  if (over_) notes_->fault("a session ended twice");
  over_ = true;
  book().ends[mine_] = why;
  book().ended_at[mine_] = net_->now();
  notes_->duplicates += own->duplicates();
  on_end();
}

void checked_talk::talk_later() {
  net_->at(net_->now() + std::chrono::milliseconds{1 + below(300)},
           [this, alive = std::weak_ptr<int>(alive_)] {
             if (alive.expired() || over_ || dead_ || quiet) return;
             net_->post(*keeper, [this, alive](instant) {
               if (alive.expired() || over_ || dead_) return;
               talk();
               talk_later();
             });
           });
}

void checked_talk::talk() {
  if (own->now_is() != session::state::joined || quiet) return;
  own->set_progress({out().messages_sent, "nobody"});
  for (std::uint64_t i = below(4); i > 0; --i) say_message();
  if (below(4) == 0) say_body();
}

void checked_talk::say_message() {
  bytes message;
  frame_writer{message}.u64(terms_.session).u64(out().messages_sent);
  message.resize(message.size() + below(below(20) == 0 ? 40'000 : 100));
  if (own->send(std::move(message)))
    ++out().messages_sent;
  else if (own->waits().find(" waits for credit of ") == std::string::npos)
    notes_->fault("a sender without credit does not say whom it waits for");
  if (out().messages_sent > terms_.messages + out().messages_allowed)
    notes_->fault("more messages are under way than there is credit for");
}

void checked_talk::say_body() {
  bytes tag;
  frame_writer{tag}.u64(terms_.session).u64(out().bodies_sent);
  const std::size_t size = below(20) == 0 ? below(600'000) : below(3000);
  auto memory = std::make_shared<bytes>(size);
  for (std::size_t i = 0; i < size; i += 997) (*memory)[i] = pattern(out().bodies_sent, i);
  if (own->send_body(std::move(tag), *memory, memory)) ++out().bodies_sent;
  if (out().bodies_sent > (mine_ == server ? terms_.bodies : terms_.bodies_of_client) + out().bodies_allowed)
    notes_->fault("more bodies are under way than there is credit for");
}

void checked_talk::allow_later(std::uint32_t messages, std::uint32_t bodies) {
  net_->at(net_->now() + std::chrono::milliseconds{below(30)}, [=, this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || over_ || dead_) return;
    net_->post(*keeper, [=, this](instant) {
      if (alive.expired() || over_ || dead_) return;
      in().messages_allowed += messages;
      in().bodies_allowed += bodies;
      own->allow(messages, bodies);
    });
  });
}

} // namespace mailgrad::net
