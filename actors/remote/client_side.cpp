#include <mailgrad/actors/remote/client_side.hpp>

#include <mailgrad/actors/remote/membership.hpp>

namespace mailgrad::remote {

client_side::client_side(std::shared_ptr<net::network> by, net::hello says, channel_events told)
    : network_(std::move(by)) {
  channel_events events;
  events.on_joined = [this, on_joined = std::move(told.on_joined)](const net::welcome& terms) {
    if (on_joined) on_joined(terms);
    const std::lock_guard lock(mutex_);
    terms_ = terms;
    changed_.notify_all();
  };
  events.on_ended = [this, on_ended = std::move(told.on_ended)](const net::ending& why) {
    if (on_ended) on_ended(why);
    const std::lock_guard lock(mutex_);
    ended_ = why;
    changed_.notify_all();
  };
  channel_ = std::make_shared<channel>(*network_, std::move(events));
  end_ = std::make_unique<net::client_end>(std::move(says), *channel_, network_->now());
  channel_->attach(*end_, end_->own());
}

void client_side::join(const std::string& address) {
  connect(address);
  if (const auto failed = wait_until_in()) throw join_error(*failed);
}

void client_side::close(const std::string& words) {
  {
    const std::lock_guard lock(connecting_); // or else a connection could begin behind the end
    if (closed_.exchange(true)) return;
    network_->forget(*end_);
  }
  channel_->give_up(words);
}

using net::end_reason, net::refusal_code;

namespace {

/// Whether a server that refuses for this reason may take the worker in later.
bool may_pass(refusal_code c) {
  return c == refusal_code::number || c == refusal_code::incarnation || c == refusal_code::session ||
         c == refusal_code::late || c == refusal_code::full;
}

} // namespace

bool is_of_the_connection(end_reason r) noexcept {
  return r == end_reason::silent || r == end_reason::lost || r == end_reason::superseded ||
         r == end_reason::late;
}

net::hello rejoin_plan::says() const {
  net::hello h;
  h.part = net::role::worker;
  h.says[std::string(net::feature::run)] = net::key_text(terms_.run);
  if (takes_any_) return h;
  h.number = terms_.you.number;
  h.incarnation = terms_.incarnation + 1;
  return h;
}

bool rejoin_plan::tries_again_after(const net::ending& why, net::instant now) {
  pause_ = std::clamp(2 * pause_, shortest_pause, longest_pause);
  if (why.reason == end_reason::refused) {
    takes_any_ = takes_any_ || why.refused_for == refusal_code::incarnation;
    return why.refused_for && may_pass(*why.refused_for) && now + pause_ < until_;
  }
  return is_of_the_connection(why.reason) && now + pause_ < until_;
}

} // namespace mailgrad::remote
