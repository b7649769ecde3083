#include <mailgrad/actors/remote/rejoin_plan.hpp>

#include <algorithm>

namespace mailgrad::remote {

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

void rejoin_plan::is_in(const net::welcome& terms, net::instant now) {
  terms_ = terms;
  in_since_ = now;
  takes_any_ = false;
}

bool rejoin_plan::is_cut_off(const net::ending& why, net::instant now) {
  if (patience_.count() == 0 || !is_of_the_connection(why.reason)) return false;
  if (now - in_since_ > longest_pause) pause_ = std::chrono::milliseconds{0};
  until_ = now + patience_;
  return true;
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
