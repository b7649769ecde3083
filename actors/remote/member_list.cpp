#include <mailgrad/actors/remote/member_list.hpp>

#include <mailgrad/actors/remote/guest_host.hpp>

#include <chrono>
#include <utility>

namespace mailgrad::remote {

namespace {

double seconds_between(net::instant before, net::instant now) {
  return std::chrono::duration<double>(now - before).count();
}

} // namespace

run_member::state state_after(const net::ending& why) {
  if (!is_in_order(why.reason)) return run_member::state::lost;
  const bool done = why.reason == net::end_reason::run_failed || why.words == work_is_done;
  return done ? run_member::state::done : run_member::state::left;
}

void member_list::joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
                         net::instant now) {
  entry& e = all_[terms.you];
  e = {.incarnation = terms.incarnation,
       .since = now,
       .from = from,
       .devices = std::move(devices),
       .losses = e.losses,
       .why = std::move(e.why)};
}

void member_list::holds(const net::member& who, std::vector<std::uint32_t> shards) {
  if (const auto found = all_.find(who); found != all_.end()) found->second.shards = std::move(shards);
}

void member_list::ended(const net::welcome& terms, const net::ending& why, net::instant heard,
                        net::instant now) {
  const auto found = all_.find(terms.you);
  if (closed_ || found == all_.end() || found->second.incarnation < terms.incarnation) return;
  entry& e = found->second;
  const run_member::state is = state_after(why);
  const bool lost = is == run_member::state::lost;
  if (lost) ++e.losses;
  if (lost || is == run_member::state::left) e.why = why.words;
  if (e.incarnation != terms.incarnation) return;
  e.is = is;
  e.since = now;
  e.heard = heard;
}

void member_list::close(net::instant now) {
  closed_ = true;
  for (auto& [who, e] : all_) {
    if (e.is != run_member::state::joined) continue;
    e.is = run_member::state::done;
    e.since = now;
  }
}

std::vector<run_member>
member_list::told(net::instant now,
                  const std::function<std::optional<net::instant>(const net::member&)>& heard) const {
  std::vector<run_member> members;
  for (const auto& [who, e] : all_) {
    const auto last = e.is == run_member::state::joined ? heard(who) : e.heard;
    run_member m{std::string(net::to_string(who.part)), who.number, e.incarnation, e.is};
    m.since = seconds_between(e.since, now);
    if (last) m.heard = seconds_between(*last, now);
    m.address = e.from;
    m.devices = e.devices;
    m.shards = e.shards;
    m.losses = e.losses;
    m.why = e.why;
    members.push_back(std::move(m));
  }
  return members;
}

} // namespace mailgrad::remote
