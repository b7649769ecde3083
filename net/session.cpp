#include <mailgrad/net/session.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace mailgrad::net {

session::session(hello says, session_events& events, instant now)
    : events_(&events), is_client_(true), says_(std::move(says)), began_(now),
      pauses_(now), lines_{line{*this}, line{*this}} {
  terms_.session = 0;
  patient_ = says_.part == role::shard;
}

session::session(const welcome& terms, session_events& events, instant now, features peer)
    : events_(&events), is_client_(false), peer_says_(std::move(peer)), terms_(terms), began_(now),
      pauses_(now), lines_{line{*this}, line{*this}} {
  patient_ = terms.you.part == role::shard;
  messages_in_.allowed = messages_out_.allowed = told_messages_ = terms.messages;
  bodies_out_.allowed = terms.bodies;
  bodies_in_.allowed = terms.bodies_of_client;
}

void session::attach(plane p, instant now) {
  line& l = line_of(p);
  l.attached = true;
  l.heard = l.said = now;
  if (is_client_) {
    if (p == plane::control) { // the server may have been waited for, behind a connection that closed
      began_ = now;
      pauses_ = own_pauses(now);
      l.greeted = false;
      l.out = 0;
    }
    return;
  }
  l.in = 1; // the hello
  if (p == plane::bulk && state_ == state::greeting) join(now);
}

bool session::reads_bulk(bool has_room, instant now) {
  line& l = line_of(plane::bulk);
  if (state_ == state::ended) return true; // what comes is forgotten, and nobody is told any more
  if (!has_room && !body_in_ && state_ == state::joined) {
    if (!l.since) l.since = now;
    if (!std::exchange(l.held, true)) events_->held(true);
    return false;
  }
  if (!std::exchange(l.held, false)) return true;
  l.excused = now + (now - *l.since);
  events_->held(false);
  return true;
}

template <class Read>
void session::guarded(plane p, instant now, Read read) {
  if (state_ == state::ended) return;
  reading_ = p;
  now_ = now;
  line& l = line_of(p);
  l.heard = now;
  l.since.reset();
  try {
    read(l.decoder);
  } catch (const protocol_error& e) {
    end({e.reason(), fmt::format("{}: {}", peer_name(), e.what())}, now, true);
  } catch (const std::exception& e) { // such as no memory for what the peer sends
    end({end_reason::failed, fmt::format("{}: cannot take what it sends: {}", peer_name(), e.what())}, now,
        true);
  }
}

void session::receive(plane p, byte_view data, instant now) {
  guarded(p, now, [&](frame_decoder& d) { d.feed(data); });
}

void session::filled(plane p, std::size_t count, instant now) {
  guarded(p, now, [&](frame_decoder& d) { d.filled(count); });
}

void session::lose(plane p, std::string_view words, instant now) {
  if (state_ == state::ended) return;
  // Before the welcome a client was promised nothing, so the words say all.
  const bool is_stranger = is_client_ && !line_of(p).welcome;
  std::string told = is_stranger ? fmt::format("{}: {}", peer_name(), words)
                                 : fmt::format("{}: the {} connection closed without a goodbye: {}",
                                               peer_name(), to_string(p), words);
  if (p == plane::bulk && line_of(plane::control).attached) {
    // Both connections of a peer that leaves close at once, and the reason stands in the other one.
    if (!bulk_lost_) bulk_lost_ = now;
    bulk_words_ = std::move(told);
    return;
  }
  end({end_reason::lost, std::move(told)}, now, false);
}

void session::excuse_own_pause(instant now) {
  const instant pause = pauses_.found(now, terms_.times);
  began_ += pause;
  for (line& l : lines_) l.heard = std::min(now, l.heard + pause);
}

bool session::is_overdue(instant now) {
  excuse_own_pause(now);
  return state_ == state::greeting && now >= began_ + longest_greeting();
}

void session::tick(instant now) {
  if (state_ == state::ended) return;
  excuse_own_pause(now);
  if (bulk_lost_ && now >= *bulk_lost_ + terms_.times.heartbeat()) {
    end({end_reason::lost, bulk_words_}, now, true);
    return;
  }
  if (state_ == state::greeting) {
    if (is_overdue(now))
      end({end_reason::late, fmt::format("{}: expected both connections within {} s, found {}", peer_name(),
                                         in_seconds(longest_greeting()),
                                         line_of(plane::bulk).attached ? "no welcome on the second" : "one")},
          now, true);
    return;
  }
  for (const plane p : {plane::control, plane::bulk}) {
    line& l = line_of(p);
    if (l.held) l.excused = now;
    if (now - std::max(l.heard, l.excused) > longest_silence()) {
      end({end_reason::silent,
           fmt::format("{}: expected a sign of life each {} ms, found none on the {} connection for {:.1f} s",
                       peer_name(), terms_.times.heartbeat().count(), to_string(p),
                       in_seconds(now - l.heard))},
          now, true);
      return;
    }
    if (now >= l.said + terms_.times.heartbeat()) l.heartbeat_due = true;
  }
}

instant session::deadline() const noexcept {
  if (state_ == state::ended) return instant::max();
  instant first = bulk_lost_ ? *bulk_lost_ + terms_.times.heartbeat() : instant::max();
  first = std::min(first, pauses_.due(terms_.times));
  if (state_ == state::greeting) return std::min(first, began_ + longest_greeting());
  for (const line& l : lines_) {
    first = std::min(first, std::max(l.heard, l.excused) + longest_silence() + instant{1});
    if (!l.heartbeat_due) first = std::min(first, l.said + terms_.times.heartbeat());
  }
  return first;
}

bool session::send(bytes message) {
  if (message.size() > most_message_bytes)
    throw std::length_error(
        fmt::format("message: expected at most {} bytes, found {}", most_message_bytes, message.size()));
  if (state_ != state::joined) throw std::logic_error("session: send() before it is joined or after its end");
  messages_out_.wanted = messages_out_.empty();
  if (messages_out_.wanted) return false;
  ++messages_out_.used;
  messages_.push_back(std::move(message));
  return true;
}

bool session::send_body(bytes tag, byte_view body, std::shared_ptr<const void> keeps) {
  if (tag.size() > most_tag_bytes)
    throw std::length_error(
        fmt::format("body: expected a tag of at most {} bytes, found {}", most_tag_bytes, tag.size()));
  if (body.size() > terms_.most_body_bytes)
    throw std::length_error(
        fmt::format("body: expected at most {} bytes, found {}", terms_.most_body_bytes, body.size()));
  if (state_ != state::joined)
    throw std::logic_error("session: send_body() before it is joined or after its end");
  bodies_out_.wanted = bodies_out_.empty();
  if (bodies_out_.wanted) return false;
  ++bodies_out_.used;
  bodies_.push_back({std::move(tag), body, std::move(keeps)});
  if (memory_) bodies_.back().lent = memory_->lend(body);
  return true;
}

void session::allow(std::uint32_t messages, std::uint32_t bodies) {
  messages_in_.allowed += messages;
  bodies_in_.allowed += bodies;
  // Bodies are few and large, so each is told. Messages are told by the half of the window.
  credit_due_ |= bodies > 0 || messages_in_.allowed - told_messages_ >= std::max(terms_.messages / 2, 1U);
}

void session::set_progress(progress p) {
  constexpr std::size_t most_words = 512;
  if (p.waits_for.size() > most_words) p.waits_for.resize(most_words);
  mine_ = std::move(p);
  // A connection that is in use again needs no heartbeat, and the peer would go on telling of that wait.
  // Either connection may have told, and neither overtakes itself.
  if (!told_wait_.empty() && mine_.waits_for != told_wait_)
    for (line& l : lines_) l.heartbeat_due = true;
}

void session::join(instant now) {
  state_ = state::joined;
  for (line& l : lines_) {
    l.heard = now;
    l.heartbeat_due = true;
  }
  events_->joined(terms_);
}

void session::end(ending why, instant now, bool tell) {
  if (state_ == state::ended) return;
  now_ = now;
  state_ = state::ended;
  goodbye_due_ = tell && line_of(plane::control).attached && (!is_client_ || line_of(plane::control).welcome);
  messages_.clear();
  end_loans();
  body_in_.reset();
  outcome_ = std::move(why);
  events_->ended(*outcome_);
}

/// What the peer may still read stays as it is.
void session::end_loans() {
  for (const body_out& b : bodies_) // of these it has not heard
    if (b.lent) memory_->take_back(*b.lent);
  bodies_.clear();
  returns_.clear();
  for (auto& [number, out] : lent_) memory_->abandon(out.what, std::move(out.keeps));
  lent_.clear();
}

void session::give_back(std::uint64_t number) {
  if (state_ == state::joined) returns_.push_back(number);
}

std::string session::self_name() const {
  if (!is_client_) return server_name_;
  if (terms_.session == 0) return std::string(to_string(says_.part));
  return fmt::format("{} (incarnation {})", to_string(terms_.you), terms_.incarnation);
}

std::string session::peer_name() const {
  if (is_client_) return server_name_;
  return fmt::format("{} (incarnation {})", to_string(terms_.you), terms_.incarnation);
}

instant session::last_heard() const noexcept { return std::max(lines_[0].heard, lines_[1].heard); }

std::string session::waits() const {
  if (state_ != state::joined) return "";
  const auto words = [this](const credit& c, std::string_view what) {
    if (c.allowed == 0) return fmt::format("{} waits for its first credit of {}", self_name(), peer_name());
    return fmt::format("{} waits for credit of {}: all {} {} that it may have sent are under way",
                       self_name(), peer_name(), c.allowed, what);
  };
  if (bodies_out_.wanted) return words(bodies_out_, "bodies");
  return messages_out_.wanted ? words(messages_out_, "messages") : "";
}

} // namespace mailgrad::net
