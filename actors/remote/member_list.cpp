#include <mailgrad/actors/remote/member_list.hpp>

#include <chrono>
#include <utility>

namespace mailgrad::remote {

namespace {

double seconds_between(net::instant before, net::instant now) {
  return std::chrono::duration<double>(now - before).count();
}

} // namespace

void member_list::joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
                         net::instant now) {
  all_[terms.you] = {
      .incarnation = terms.incarnation, .since = now, .from = from, .devices = std::move(devices)};
}

void member_list::holds(const net::member& who, std::vector<std::uint32_t> shards) {
  if (const auto found = all_.find(who); found != all_.end()) found->second.shards = std::move(shards);
}

void member_list::ended(const net::welcome& terms, const net::ending& why, net::instant heard,
                        net::instant now) {
  const auto found = all_.find(terms.you);
  if (found == all_.end() || found->second.incarnation != terms.incarnation) return;
  entry& e = found->second;
  e.is = is_in_order(why.reason) ? run_member::state::left : run_member::state::lost;
  e.since = now;
  e.heard = heard;
  e.why = why.words;
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
    m.why = e.why;
    members.push_back(std::move(m));
  }
  return members;
}

} // namespace mailgrad::remote
