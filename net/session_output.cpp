#include <mailgrad/net/session.hpp>

#include <algorithm>

// What a session sends. Heartbeats and credit go before messages, and bodies go in pieces, so that neither
// waits for a large body.

namespace mailgrad::net {

namespace {

constexpr std::size_t most_goodbye_words = 900;

bytes goodbye(const ending& why) {
  bytes payload;
  frame_writer{payload}
      .u8(static_cast<std::uint8_t>(why.reason))
      .text(std::string_view{why.words}.substr(0, most_goodbye_words));
  return payload;
}

} // namespace

std::optional<outgoing> session::next(plane p, instant now) {
  line& l = line_of(p);
  if (!l.attached) return std::nullopt;
  if (state_ == state::ended) {
    if (p != plane::control || !goodbye_due_) return std::nullopt;
    goodbye_due_ = false;
    return frame_of(p, frame_kind::goodbye, goodbye(*outcome_), now);
  }
  if (!l.greeted) {
    l.greeted = true;
    return frame_of(p, is_client_ ? frame_kind::hello : frame_kind::welcome, greeting(p), now);
  }
  if (state_ != state::joined) return std::nullopt;
  if (l.heartbeat_due) {
    l.heartbeat_due = false;
    return frame_of(p, frame_kind::heartbeat, heartbeat(), now);
  }
  if (p == plane::bulk) return next_of_body(now);
  if (credit_due_) {
    credit_due_ = false;
    told_messages_ = messages_in_.allowed;
    bytes payload;
    frame_writer{payload}.u64(messages_in_.allowed).u64(bodies_in_.allowed);
    return frame_of(p, frame_kind::credit, std::move(payload), now);
  }
  if (messages_.empty()) return std::nullopt;
  bytes message = std::move(messages_.front());
  messages_.pop_front();
  return frame_of(p, frame_kind::message, std::move(message), now);
}

std::optional<outgoing> session::next_of_body(instant now) {
  if (!returns_.empty()) {
    bytes payload;
    frame_writer{payload}.u64(returns_.front());
    returns_.pop_front();
    return frame_of(plane::bulk, frame_kind::returned, std::move(payload), now);
  }
  if (bodies_.empty()) return std::nullopt;
  if (bodies_.front().lent) return next_loan(now);
  body_out& b = bodies_.front();
  outgoing frame;
  if (!b.begun) {
    b.begun = true;
    bytes payload;
    frame_writer{payload}.u64(b.data.size()).raw(b.tag);
    frame = frame_of(plane::bulk, frame_kind::body, std::move(payload), now);
  } else {
    line& l = line_of(plane::bulk);
    frame.body = b.data.subspan(b.sent, std::min(most_piece_bytes, b.data.size() - b.sent));
    frame.keeps = b.keeps;
    b.sent += frame.body.size();
    frame.header = encode({.kind = frame_kind::piece,
                           .run = terms_.run,
                           .session = terms_.session,
                           .sequence = l.out++,
                           .length = static_cast<std::uint32_t>(frame.body.size()),
                           .checksum = checksum_of(frame.body)});
    l.said = now;
  }
  if (b.sent == b.data.size()) bodies_.pop_front();
  return frame;
}

outgoing session::next_loan(instant now) {
  body_out b = std::move(bodies_.front());
  bodies_.pop_front();
  bytes payload;
  frame_writer{payload}
      .u64(b.lent->block)
      .u64(b.lent->block_bytes)
      .u64(b.lent->begin)
      .u64(b.lent->bytes)
      .raw(b.tag);
  lent_.emplace(loans_out_++, lent_out{*b.lent, std::move(b.keeps)});
  return frame_of(plane::bulk, frame_kind::lent, std::move(payload), now);
}

outgoing session::frame_of(plane p, frame_kind k, bytes payload, instant now) {
  line& l = line_of(p);
  l.said = now;
  outgoing frame;
  frame.header = encode({.kind = k,
                         .run = terms_.run,
                         .session = terms_.session,
                         .sequence = l.out++,
                         .length = static_cast<std::uint32_t>(payload.size()),
                         .checksum = checksum_of(payload)});
  frame.payload = std::move(payload);
  return frame;
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

bytes session::heartbeat() {
  told_wait_ = mine_.waits_for;
  bytes payload;
  frame_writer{payload}.u64(mine_.step).text(mine_.waits_for);
  return payload;
}

} // namespace mailgrad::net
