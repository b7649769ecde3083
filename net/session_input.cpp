#include <mailgrad/net/refusal_advice.hpp>
#include <mailgrad/net/session.hpp>

#include <fmt/format.h>

#include <stdexcept>

// What a session makes of the frames that arrive. Everything is checked in place_of(), before memory is
// taken.

namespace mailgrad::net {

std::span<std::byte> session::place_of(const frame_header& h) {
  const line& l = line_of(reading_);
  if (state_ == state::ended || h.sequence < l.in) return {}; // read and forgotten by take()
  if (is_client_ && !l.welcome) {
    if (h.kind != frame_kind::welcome && h.kind != frame_kind::refusal)
      throw protocol_error(
          fmt::format("frame: expected a welcome or a refusal, found a {}", to_string(h.kind)));
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
    throw protocol_error(fmt::format("{}: expected run {}, found {}", to_string(h.kind), key_text(terms_.run),
                                     key_text(h.run)));
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
    throw protocol_error(fmt::format("frame: expected no {} {}, found one", to_string(k),
                                     is_early ? "before both connections stand" : "after the first frame"));
  if (!is_either && is_bulk != (reading_ == plane::bulk))
    throw protocol_error(fmt::format("frame: expected no {} on the {} connection, found one", to_string(k),
                                     to_string(reading_)));
}

std::span<std::byte> session::piece_place(std::uint32_t length) const {
  const std::size_t left = body_in_ ? body_in_->size() - body_in_count_ : 0;
  if (length == 0 || length > left)
    throw protocol_error(fmt::format("piece: expected 1 to {} bytes of a body, found {}", left, length));
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
  events_->progress_told(peer_progress_);
}

void session::take_credit(byte_view payload) {
  frame_reader reader{"credit", payload};
  const std::uint64_t messages = reader.u64();
  const std::uint64_t bodies = reader.u64();
  reader.end();
  if (messages < messages_out_.allowed || bodies < bodies_out_.allowed)
    throw protocol_error(fmt::format("credit: expected at least {} messages and {} bodies, found {} and {}",
                                     messages_out_.allowed, bodies_out_.allowed, messages, bodies));
  messages_out_.allowed = messages;
  bodies_out_.allowed = bodies;
  const bool came =
      (messages_out_.wanted && !messages_out_.empty()) || (bodies_out_.wanted && !bodies_out_.empty());
  if (!messages_out_.empty()) messages_out_.wanted = false;
  if (!bodies_out_.empty()) bodies_out_.wanted = false;
  if (came) events_->credit_came();
}

void session::take_body(byte_view payload) {
  frame_reader reader{"body", payload};
  const std::uint64_t size = reader.u64();
  const byte_view tag = reader.rest();
  if (body_in_) throw protocol_error("body: expected the rest of the one before, found another");
  if (size > terms_.most_body_bytes)
    throw protocol_error(
        fmt::format("body: expected at most {} bytes, found {}", terms_.most_body_bytes, size));
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
    throw protocol_error(
        fmt::format("lent: expected at most {} bytes, found {}", terms_.most_body_bytes, l.bytes));
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
    throw protocol_error(fmt::format("returned: expected a body that is lent, found number {}", number));
  memory_->take_back(found->second.what);
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

} // namespace mailgrad::net
