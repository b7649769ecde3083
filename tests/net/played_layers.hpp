#pragma once

#include <mailgrad/net/session.hpp>

#include <map>
#include <string>
#include <vector>

namespace mailgrad::net {

/// The layers above a session in a test: keep what they are told.
struct played_layers : session_events {
  void joined(const welcome& terms) override {
    ++joins;
    said = terms;
  }
  void message_came(byte_view message) override { messages.emplace_back(as_text(message)); }
  std::span<std::byte> place_of_body(byte_view, std::uint64_t size) override {
    place.assign(size, std::byte{0});
    return place;
  }
  void body_came(byte_view tag) override { bodies.emplace_back(as_text(tag), std::string(as_text(place))); }
  void progress_reported(const progress& p) override { told.push_back(p); }
  void held(bool is_held) override { holds.push_back(is_held); }
  void credit_came() override { ++credits; }
  void ended(const ending& why) override { ends.push_back(why); }

  int joins = 0, credits = 0;
  welcome said;
  bytes place;
  std::vector<std::string> messages;
  std::vector<std::pair<std::string, std::string>> bodies;
  std::vector<progress> told;
  std::vector<bool> holds;
  std::vector<ending> ends;
};

inline bytes bytes_of(std::string_view text) {
  const byte_view view = as_bytes(text);
  return {view.begin(), view.end()};
}

/// A frame as it travels.
inline bytes on_the_wire(const outgoing& frame) {
  bytes all(frame.header.begin(), frame.header.end());
  all.insert(all.end(), frame.content().begin(), frame.content().end());
  return all;
}

} // namespace mailgrad::net
