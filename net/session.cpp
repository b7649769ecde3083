#include <mailgrad/net/session.hpp>

#include <exception>

// What arrives is checked in place_of(), before memory is taken. Of what is sent, heartbeats and credit go
// before messages, and bodies go in pieces, so that neither waits for a large body.

namespace mailgrad::net {

session::session(hello says, session_events& events, instant now)
    : events_(&events), is_client_(true), says_(std::move(says)), began_(now),
      pauses_(now), lines_{line{*this}, line{*this}} {
  terms_.session = 0;
  patient_ = says_.part == role::shard;
}

session::session(const welcome& terms, instant now, features peer)
    : is_client_(false), peer_says_(std::move(peer)), terms_(terms), began_(now),
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
  if (!messages_out_.take()) return false;
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
  if (!bodies_out_.take()) return false;
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
  bodies_.clear(); // of these the peer has not heard
  returns_.clear();
  for (auto& [number, out] : lent_) // what it may still read stays as it is
    memory_->abandon(std::move(out.what), std::move(out.keeps));
  lent_.clear();
  body_in_.reset();
  outcome_ = std::move(why);
  events_->ended(*outcome_);
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

std::span<std::byte> session::place_of(const frame_header& h) {
  const line& l = line_of(reading_);
  if (state_ == state::ended || h.sequence < l.in) return {}; // read and forgotten by take()
  if (is_client_ && !l.welcome) {
    if (h.kind != frame_kind::welcome && h.kind != frame_kind::refusal)
      throw protocol_error("frame: expected a welcome or a refusal, found a {}", to_string(h.kind));
    return {};
  }
  check_identity(h);
  if (h.sequence > l.in)
    throw protocol_error(fmt::format("{}: expected frame {} of the {} connection, found frame {}",
                                     to_string(h.kind), l.in, to_string(reading_), h.sequence),
                         end_reason::out_of_order);
  check_plane(h.kind);
  const bool without_credit =
      (h.kind == frame_kind::message && messages_in_.empty()) ||
      ((h.kind == frame_kind::body || h.kind == frame_kind::lent) && bodies_in_.empty());
  if (without_credit)
    throw protocol_error(
        fmt::format("{}: expected at most {} of its kind, found one more", to_string(h.kind),
                    h.kind == frame_kind::message ? messages_in_.allowed : bodies_in_.allowed),
        end_reason::no_credit);
  return h.kind == frame_kind::piece ? piece_place(h.length) : std::span<std::byte>{};
}

void session::check_identity(const frame_header& h) const {
  if (h.run != terms_.run)
    throw protocol_error("{}: expected run {}, found {}", to_string(h.kind), key_text(terms_.run),
                         key_text(h.run));
  if (h.session != terms_.session)
    throw protocol_error(fmt::format("{}: expected session {}, found {}: it is of another incarnation",
                                     to_string(h.kind), key_text(terms_.session), key_text(h.session)),
                         end_reason::superseded);
}

void session::check_plane(frame_kind k) const {
  const bool is_bulk =
      k == frame_kind::body || k == frame_kind::piece || k == frame_kind::lent || k == frame_kind::returned;
  const bool is_either = k == frame_kind::heartbeat;
  const bool is_greeting = k == frame_kind::hello || k == frame_kind::welcome || k == frame_kind::refusal;
  const bool is_early = !is_client_ && state_ == state::greeting && k != frame_kind::goodbye;
  if (is_greeting || is_early)
    throw protocol_error("frame: expected no {} {}, found one", to_string(k),
                         is_early ? "before both connections stand" : "after the first frame");
  if (!is_either && is_bulk != (reading_ == plane::bulk))
    throw protocol_error("frame: expected no {} on the {} connection, found one", to_string(k),
                         to_string(reading_));
}

std::span<std::byte> session::piece_place(std::uint32_t length) const {
  const std::size_t left = body_in_ ? body_in_->size() - body_in_count_ : 0;
  if (length == 0 || length > left)
    throw protocol_error("piece: expected 1 to {} bytes of a body, found {}", left, length);
  return body_in_->subspan(body_in_count_, length);
}

void session::take(const frame_header& h, byte_view payload) {
  line& l = line_of(reading_);
  if (state_ == state::ended) return;
  if (h.sequence < l.in) {
    ++duplicates_;
    return;
  }
  l.in = h.sequence + 1;
  const bool is_proof =
      l.welcome && h.kind != frame_kind::goodbye; // a server says nothing before it is joined
  if (is_client_ && is_proof && state_ == state::greeting) join(now_);
  if (state_ == state::ended) return;
  switch (h.kind) {
  case frame_kind::welcome:
  case frame_kind::refusal:
    return take_greeting(h, payload);
  case frame_kind::heartbeat:
    return take_heartbeat(payload);
  case frame_kind::message:
    ++messages_in_.used;
    return events_->message_came(payload);
  case frame_kind::credit:
    return take_credit(payload);
  case frame_kind::body:
    return take_body(payload);
  case frame_kind::piece:
    return take_piece(payload.size());
  case frame_kind::lent:
    return take_lent(payload);
  case frame_kind::returned:
    return take_returned(payload);
  case frame_kind::goodbye:
    return take_goodbye(payload);
  case frame_kind::hello:
    return; // place_of() takes none
  }
}

void session::take_greeting(const frame_header& h, byte_view payload) {
  if (h.kind == frame_kind::refusal) {
    const refusal why = decode_refusal(payload);
    end({end_reason::refused, fmt::format("{} refuses: {}{}", peer_name(), why.words(), advice_on(why)),
         why.code},
        now_, false);
    return;
  }
  const welcome said = decode_welcome(payload);
  line_of(reading_).welcome = true;
  if (reading_ == plane::control) {
    if (said.session == 0) throw protocol_error("welcome: expected a session, found 0");
    terms_ = said;
    messages_in_.allowed = messages_out_.allowed = told_messages_ = said.messages;
    bodies_in_.allowed = said.bodies;
    bodies_out_.allowed = said.bodies_of_client;
    return;
  }
  if (said != terms_)
    throw protocol_error("welcome: expected the terms of the control connection, found others");
  if (state_ == state::greeting) join(now_);
}

void session::take_heartbeat(byte_view payload) {
  frame_reader reader{"heartbeat", payload};
  progress said;
  said.step = reader.u64();
  said.waits_for = printable(reader.text(), most_payload_bytes(frame_kind::heartbeat));
  reader.end();
  if (said == peer_progress_) return;
  peer_progress_ = std::move(said);
  events_->progress_reported(peer_progress_);
}

void session::take_credit(byte_view payload) {
  frame_reader reader{"credit", payload};
  const std::uint64_t messages = reader.u64();
  const std::uint64_t bodies = reader.u64();
  reader.end();
  if (messages < messages_out_.allowed || bodies < bodies_out_.allowed)
    throw protocol_error("credit: expected at least {} messages and {} bodies, found {} and {}",
                         messages_out_.allowed, bodies_out_.allowed, messages, bodies);
  const bool of_messages = messages_out_.raise(messages), of_bodies = bodies_out_.raise(bodies);
  if (of_messages || of_bodies) events_->credit_came();
}

void session::take_body(byte_view payload) {
  frame_reader reader{"body", payload};
  const std::uint64_t size = reader.u64();
  const byte_view tag = reader.rest();
  if (body_in_) throw protocol_error("body: expected the rest of the one before, found another");
  if (size > terms_.most_body_bytes)
    throw protocol_error("body: expected at most {} bytes, found {}", terms_.most_body_bytes, size);
  tag_in_.assign(tag.begin(), tag.end());
  const std::span<std::byte> place = events_->place_of_body(tag_in_, size);
  if (place.size() != size)
    throw std::logic_error("session: the place of a body has another size than the body");
  ++bodies_in_.used;
  if (size == 0) return events_->body_came(tag_in_);
  body_in_ = place;
  body_in_count_ = 0;
}

void session::take_piece(std::size_t length) {
  body_in_count_ += length;
  if (body_in_count_ < body_in_->size()) return;
  body_in_.reset();
  events_->body_came(tag_in_);
}

void session::take_lent(byte_view payload) {
  frame_reader reader{"lent", payload};
  const loan l{reader.u64(), reader.u64(), reader.u64(), reader.u64()};
  const byte_view tag = reader.rest();
  if (!memory_) throw protocol_error("lent: expected bodies in pieces, found one in memory of the peer");
  if (body_in_) throw protocol_error("lent: expected the rest of the body before, found another");
  if (l.bytes > terms_.most_body_bytes)
    throw protocol_error("lent: expected at most {} bytes, found {}", terms_.most_body_bytes, l.bytes);
  const borrowed found = memory_->borrow(l);
  ++bodies_in_.used;
  const std::uint64_t number = loans_in_++;
  tag_in_.assign(tag.begin(), tag.end());
  if (!events_->body_lent(tag_in_, found, number)) give_back(number);
}

void session::take_returned(byte_view payload) {
  frame_reader reader{"returned", payload};
  const std::uint64_t number = reader.u64();
  reader.end();
  const auto found = lent_.find(number);
  if (found == lent_.end())
    throw protocol_error("returned: expected a body that is lent, found number {}", number);
  lent_.erase(found);
}

void session::take_goodbye(byte_view payload) {
  frame_reader reader{"goodbye", payload};
  const std::uint8_t reason = reader.u8();
  if (!is_end_reason(reason)) reader.fail(fmt::format("expected a reason, found {}", reason));
  const std::string words = printable(reader.text(), most_payload_bytes(frame_kind::goodbye));
  reader.end();
  end({static_cast<end_reason>(reason), fmt::format("{} says: {}", peer_name(), words)}, now_, false);
}

std::optional<outgoing> session::next(plane p, instant now) {
  line& l = line_of(p);
  if (!l.attached) return std::nullopt;
  if (state_ == state::ended) {
    constexpr std::size_t most_words = 900;
    if (p != plane::control || !std::exchange(goodbye_due_, false)) return std::nullopt;
    return frame_of(p, frame_kind::goodbye,
                    frame_writer{}
                        .u8(static_cast<std::uint8_t>(outcome_->reason))
                        .text(std::string_view{outcome_->words}.substr(0, most_words))
                        .take(),
                    now);
  }
  if (!std::exchange(l.greeted, true))
    return frame_of(p, is_client_ ? frame_kind::hello : frame_kind::welcome, greeting(p), now);
  if (state_ != state::joined) return std::nullopt;
  if (std::exchange(l.heartbeat_due, false)) {
    told_wait_ = mine_.waits_for;
    return frame_of(p, frame_kind::heartbeat, frame_writer{}.u64(mine_.step).text(told_wait_).take(), now);
  }
  if (p == plane::bulk) return next_of_body(now);
  if (std::exchange(credit_due_, false)) {
    told_messages_ = messages_in_.allowed;
    return frame_of(p, frame_kind::credit, frame_writer{}.u64(told_messages_).u64(bodies_in_.allowed).take(),
                    now);
  }
  if (messages_.empty()) return std::nullopt;
  bytes message = std::move(messages_.front());
  messages_.pop_front();
  return frame_of(p, frame_kind::message, std::move(message), now);
}

std::optional<outgoing> session::next_of_body(instant now) {
  if (!returns_.empty()) {
    const std::uint64_t number = returns_.front();
    returns_.pop_front();
    return frame_of(plane::bulk, frame_kind::returned, frame_writer{}.u64(number).take(), now);
  }
  if (bodies_.empty()) return std::nullopt;
  if (bodies_.front().lent) return next_loan(now);
  body_out& b = bodies_.front();
  outgoing frame;
  if (!std::exchange(b.begun, true)) {
    frame = frame_of(plane::bulk, frame_kind::body, frame_writer{}.u64(b.data.size()).raw(b.tag).take(), now);
  } else {
    frame.body = b.data.subspan(b.sent, std::min(most_piece_bytes, b.data.size() - b.sent));
    frame.keeps = b.keeps;
    b.sent += frame.body.size();
    seal(frame, plane::bulk, frame_kind::piece, now);
  }
  if (b.sent == b.data.size()) bodies_.pop_front();
  return frame;
}

outgoing session::next_loan(instant now) {
  body_out b = std::move(bodies_.front());
  bodies_.pop_front();
  const loan& l = b.lent->what;
  bytes payload = frame_writer{}.u64(l.block).u64(l.block_bytes).u64(l.begin).u64(l.bytes).raw(b.tag).take();
  lent_.emplace(loans_out_++, lent_out{std::move(b.keeps), std::move(*b.lent)});
  return frame_of(plane::bulk, frame_kind::lent, std::move(payload), now);
}

outgoing session::frame_of(plane p, frame_kind k, bytes payload, instant now) {
  outgoing frame;
  frame.payload = std::move(payload);
  seal(frame, p, k, now);
  return frame;
}

void session::seal(outgoing& frame, plane p, frame_kind k, instant now) {
  line& l = line_of(p);
  l.said = now;
  frame.header = header_of({.kind = k, .run = terms_.run, .session = terms_.session, .sequence = l.out++},
                           frame.content());
}

bytes session::greeting(plane p) const {
  if (!is_client_) return encode(terms_);
  hello says = says_;
  says.connection = p;
  if (p == plane::bulk) {
    says.session = terms_.session;
    says.number = terms_.you.number;
    says.incarnation = terms_.incarnation;
  }
  return encode(to_features(says));
}

} // namespace mailgrad::net
