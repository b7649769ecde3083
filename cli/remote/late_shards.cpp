#include <mailgrad/cli/remote/late_shards.hpp>

#include <mailgrad/actors/protocol/listed.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mailgrad {

namespace {

using nlohmann::ordered_json;

std::optional<run_member> host_of(std::uint32_t shard, const std::vector<run_member>& members) {
  const auto host = std::ranges::find_if(
      members, [shard](const run_member& m) { return std::ranges::count(m.shards, shard) > 0; });
  return host == members.end() ? std::nullopt : std::optional(*host);
}

bool is_together(const late_shards& all, const late_figures& one, const std::optional<run_member>& host) {
  const auto number = [](const std::optional<run_member>& m) {
    return m ? std::optional(m->number) : std::nullopt;
  };
  return all.figures.front().seconds_old.has_value() == one.seconds_old.has_value() &&
         number(all.host) == number(host);
}

std::string figures_in_words(const late_shards& x) {
  std::vector<std::uint32_t> shards;
  std::optional<double> oldest;
  for (const late_figures& f : x.figures) {
    shards.push_back(f.shard);
    oldest = std::max(oldest, f.seconds_old);
  }
  const std::string whose = mailgrad::listed("shard", shards);
  if (oldest) return fmt::format("the figures of {} are of {:.1f} s ago", whose, *oldest);
  return fmt::format("{} {} told no figures yet", whose, shards.size() == 1 ? "has" : "have");
}

std::string host_in_words(const late_shards& x) {
  if (!x.host) return "";
  const run_member& host = *x.host;
  const bool here = host.is == run_member::state::joined;
  const std::string what =
      here ? host.heard ? fmt::format("was heard {:.1f} s ago", *host.heard) : "is silent"
      : host.is == run_member::state::lost ? fmt::format("was lost {:.1f} s ago", host.since)
                                           : fmt::format("left {:.1f} s ago", host.since);
  return fmt::format("; {} {}, which {} {}, {}", host.role, host.number, here ? "holds" : "held",
                     x.figures.size() == 1 ? "it" : "them", what);
}

} // namespace

std::vector<late_shards> late_of(const training_report& so_far, const std::vector<run_member>& members) {
  std::vector<late_shards> all;
  for (const late_figures& x : so_far.late) {
    std::optional<run_member> host = host_of(x.shard, members);
    const auto known =
        std::ranges::find_if(all, [&](const late_shards& l) { return is_together(l, x, host); });
    if (known == all.end())
      all.push_back({{x}, std::move(host)});
    else
      known->figures.push_back(x);
  }
  return all;
}

std::string in_words(const std::vector<late_shards>& all) {
  std::string text;
  for (const late_shards& x : all)
    text += fmt::format("late          {}{}\n", figures_in_words(x), host_in_words(x));
  return text;
}

std::string to_json(const std::vector<late_shards>& all) {
  const auto known = [](const std::optional<double>& x) { return x ? ordered_json(*x) : ordered_json(); };
  ordered_json list = ordered_json::array();
  for (const late_shards& x : all)
    for (const late_figures& f : x.figures)
      list.push_back({{"shard", f.shard},
                      {"seconds_old", known(f.seconds_old)},
                      {"parameter_host", x.host ? ordered_json(x.host->number) : ordered_json()},
                      {"heard_seconds", x.host ? known(x.host->heard) : ordered_json()}});
  return list.dump();
}

} // namespace mailgrad
