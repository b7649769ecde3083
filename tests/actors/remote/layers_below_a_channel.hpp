#pragma once

#include <mailgrad/actors/remote/message_table.hpp>
#include <mailgrad/net/network.hpp>

#include <mailgrad/tests/net/played_layers.hpp>

namespace mailgrad::remote {

/// A network without connections: what is posted waits until the test has it done, or is done at once.
class waiting_network final : public net::network {
public:
  std::string listen(net::server_end&, const std::string& address) override { return address; }
  void connect(net::client_end&, const std::string&) override {}
  void forget(net::endpoint&) override {}
  net::instant now() const noexcept override { return moment; }
  void post(net::endpoint&, std::function<void(net::instant)> work) override {
    posted.push_back(std::move(work));
    if (is_prompt) do_all();
  }
  void do_all() {
    for (const auto& work : std::exchange(posted, {})) work(now());
  }

  std::vector<std::function<void(net::instant)>> posted;
  net::instant moment{0};
  bool is_prompt = false;
};

/// Layers whose events go to a channel.
struct layers_below_a_channel : net::session_events {
  void joined(const net::welcome& terms) override { above->joined(terms); }
  void message_came(net::byte_view message) override { above->message_came(message); }
  std::span<std::byte> place_of_body(net::byte_view tag, std::uint64_t size) override {
    return above->place_of_body(tag, size);
  }
  void body_came(net::byte_view tag) override { above->body_came(tag); }
  bool body_lent(net::byte_view tag, const net::borrowed& body, std::uint64_t number) override {
    return above->body_lent(tag, body, number);
  }
  void progress_reported(const net::progress& p) override { above->progress_reported(p); }
  void held(bool is_held) override { above->held(is_held); }
  void credit_came() override { above->credit_came(); }
  void ended(const net::ending& why) override { above->ended(why); }

  net::played_layers alone;
  net::session_events* above = &alone;
};

/// The envelope of the first message of worker 1, to whoever takes such, whose values are in a body.
inline net::bytes first_message_with_values(message_kind kind) {
  net::bytes head;
  net::frame_writer w(head);
  const duty to = may_be_sent_to(kind, duty::shard) ? duty::shard : duty::coordinator;
  write_envelope(w, {0, {to}, {duty::worker, 1}, kind, message_layout::fields_and_values});
  return head;
}

} // namespace mailgrad::remote
