#include <mailgrad/tests/actors/systems/story.hpp>

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <random>

namespace mailgrad::systems {

namespace {

class drawer {
public:
  explicit drawer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  milliseconds up_to(milliseconds most) {
    return milliseconds{static_cast<milliseconds::rep>(below(static_cast<std::uint64_t>(most.count()) + 1))};
  }
  template <class T>
  T any(std::initializer_list<T> of) {
    return *(of.begin() + static_cast<std::ptrdiff_t>(below(of.size())));
  }

private:
  std::mt19937_64 random_;
};

std::string drawn_policy(drawer& d, const system_spec& s) {
  const std::uint64_t k = 1 + d.below(s.workers);
  switch (d.below(s.hosts > 0 ? 9 : 10)) {
  case 0:
    return "sync";
  case 1:
    return fmt::format("ssp:{}", d.below(4));
  case 2:
    return fmt::format("k-async:{}", k);
  case 3:
    return fmt::format("k-batch-sync:{}", k);
  case 4:
    return fmt::format("k-batch-async:{}", k);
  case 5:
    return s.workers > 1 ? "backup:1" : "sync";
  case 6:
    return fmt::format("ringmaster:{}", 1 + d.below(4));
  case 7:
    return fmt::format("rennala:{}", 1 + d.below(3));
  case 8:
    return "async";
  default:
    return fmt::format("quorum:{},grace=0.1", k);
  }
}

/// About how long it trains if nothing is done to it.
milliseconds lasting(const system_spec& s) {
  const auto step = 2 * s.delay.count() + s.jitter.count() + 2;
  return milliseconds{300 + static_cast<milliseconds::rep>(s.batches / s.workers) * step * 3 / 2};
}

std::string name_of(deed::kind k) {
  constexpr std::array names{"start",   "twin",      "leave",     "kill",     "crash",      "freeze", "cut",
                             "cut_out", "full_disk", "slow_disk", "switches", "checkpoint", "stop"};
  return names[static_cast<std::size_t>(k)];
}

std::string name_of(deed::role r) {
  constexpr std::array names{"server", "host", "worker", "all"};
  return names[static_cast<std::size_t>(r)];
}

} // namespace

bool has_no_faults(const system_spec& s) {
  return s.duplicate + s.reorder + s.damage + s.truncate + s.garbage == 0;
}

std::string as_code(const system_spec& s) {
  return fmt::format(
      "{{.seed = {}, .policy = \"{}\", .cure = \"{}\", .workers = {}, .slots = {}, .shards = {}, "
      ".hosts = {}, .local_steps = {}, .batches = {}, .delay = {}ms, .jitter = {}ms, .duplicate = {}, "
      ".reorder = {}, .damage = {}, .truncate = {}, .garbage = {}, .rejoin = {}ms, "
      ".when_alone = std::chrono::nanoseconds{{{}}}, .records = {}, .keeps = {}, .keeps_each = {}}}",
      s.seed, s.policy, s.cure, s.workers, s.slots, s.shards, s.hosts, s.local_steps, s.batches,
      s.delay.count(), s.jitter.count(), s.duplicate, s.reorder, s.damage, s.truncate, s.garbage,
      s.rejoin.count(), s.when_alone.count(), s.records, s.keeps, s.keeps_each);
}

std::string as_code(const story& s) {
  std::string all = "{";
  for (const deed& d : s)
    all += fmt::format("\n    {{kind::{}, role::{}, {}, {}ms, {}ms, \"{}\"}},", name_of(d.what),
                       name_of(d.who), d.number, d.at.count(), d.span.count(), d.words);
  return all + "\n}";
}

system_spec drawn_system(std::uint64_t seed) {
  drawer d(seed);
  system_spec s;
  s.seed = seed;
  s.workers = static_cast<std::uint32_t>(1 + d.below(4));
  s.slots = s.workers + static_cast<std::uint32_t>(d.below(3));
  s.shards = static_cast<std::uint32_t>(1 + d.below(3));
  s.hosts = d.one_in(3) ? static_cast<std::uint32_t>(1 + d.below(std::min(2U, s.shards))) : 0;
  s.batches = 8 + d.below(d.one_in(2) ? 40 : 200);
  s.policy = drawn_policy(d, s);
  s.cure = d.any<const char*>({"none", "none", "dc-asgd"});
  s.local_steps = d.one_in(6) ? 1 + d.below(3) : 0;
  s.delay = milliseconds{1 + d.below(40)};
  s.jitter = d.up_to(milliseconds{40});
  s.when_alone = d.any<std::chrono::nanoseconds>({std::chrono::nanoseconds{0}, std::chrono::seconds{3},
                                                  std::chrono::seconds{60}, std::chrono::nanoseconds::max()});
  s.rejoin = d.any<milliseconds>({milliseconds{5000}, milliseconds{60'000}});
  s.records = d.one_in(2);
  s.keeps = d.one_in(2);
  s.keeps_each = s.keeps && d.one_in(2) ? 1 + d.below(12) : 0;
  const bool has_batches = !s.policy.starts_with("async") && !s.policy.starts_with("ssp") &&
                           !s.policy.starts_with("ringmaster") && !s.policy.starts_with("k-async");
  if (s.local_steps > 0 || has_batches || make_policy(s.policy, s.workers)->always_fresh())
    s.cure = "none"; // there would be nothing to cure
  if (d.one_in(6)) {
    double* const faults[] = {&s.duplicate, &s.reorder, &s.damage, &s.truncate, &s.garbage};
    *faults[d.below(std::size(faults))] = d.any<double>({0.001, 0.005, 0.02});
  } else if (d.one_in(8)) { // its weights can be predicted
    if (s.workers > 1) s.policy = "sync";
    s.cure = "none";
    s.slots = s.workers;
    s.keeps = true;
    s.keeps_each = 1 + d.below(12);
  }
  return s;
}

namespace {

/// In the middle of a checkpoint, or of a part of a recording.
deed drawn_crash(drawer& d, milliseconds at) {
  return {deed::kind::crash, deed::role::server,
          static_cast<std::uint32_t>(1 + d.below(d.one_in(2) ? 8 : 40)), at, milliseconds{1 + d.below(500)}};
}

/// The server is killed, and whatever else happens leaves the weights as they are.
story server_story(drawer& d, story all, milliseconds begin, milliseconds lasts) {
  for (std::uint64_t n = 1 + d.below(4); n > 0; --n) {
    const milliseconds at = begin + d.up_to(lasts);
    switch (d.below(5)) {
    case 0:
      all.push_back({deed::kind::checkpoint, deed::role::server, 0, at});
      break;
    case 1:
      all.push_back({deed::kind::freeze, deed::role::all, 0, at, d.up_to(milliseconds{700})});
      break;
    case 2:
      all.push_back(drawn_crash(d, at));
      break;
    default:
      all.push_back(
          {deed::kind::kill, deed::role::server, 0, at, milliseconds{1 + d.below(d.one_in(2) ? 50 : 1000)}});
    }
  }
  std::ranges::stable_sort(all, {}, &deed::at);
  return all;
}

} // namespace

story drawn_story(std::uint64_t seed, const system_spec& s) {
  using kind = deed::kind;
  using role = deed::role;
  drawer d(seed ^ 0x5157);
  story all;
  const milliseconds begin{d.one_in(2) ? 100 : 1500};
  for (std::uint32_t h = 0; h < s.hosts; ++h) all.push_back({kind::start, role::host, h, d.up_to(begin)});
  const bool can_be_predicted = s.keeps && s.cure == "none" && s.slots == s.workers &&
                                (s.policy == "sync" || s.workers == 1) && has_no_faults(s) && !d.one_in(4);
  const auto extra = static_cast<std::uint32_t>(!can_be_predicted && d.one_in(3) ? 1 : 0);
  const milliseconds lasts = lasting(s);
  const std::string asks = d.one_in(2) ? "number" : "";
  for (std::uint32_t r = 0; r < s.workers + extra; ++r)
    all.push_back(
        {kind::start, role::worker, r, r < s.workers ? d.up_to(begin) : begin + d.up_to(lasts), {}, asks});
  if (can_be_predicted) return server_story(d, std::move(all), begin, lasts);
  const auto somebody = [&](deed& what) {
    const std::uint64_t which = d.below(10);
    what.who = which == 0 ? role::server : which == 1 && s.hosts > 0 ? role::host : role::worker;
    what.number = what.who == role::host     ? static_cast<std::uint32_t>(d.below(s.hosts))
                  : what.who == role::worker ? static_cast<std::uint32_t>(d.below(s.workers + extra))
                                             : 0;
  };
  for (std::uint64_t n = d.below(8); n > 0; --n) {
    deed x;
    x.at = d.one_in(3) ? d.up_to(begin + milliseconds{300}) : begin + d.up_to(lasts);
    somebody(x);
    switch (d.below(10)) {
    case 0:
    case 1:
    case 2:
      x.what = kind::kill;
      x.span = d.one_in(4) ? milliseconds{0} : milliseconds{1 + d.below(d.one_in(2) ? 400 : 4000)};
      if (x.who == role::server && s.keeps && d.one_in(3))
        x.number = static_cast<std::uint32_t>(1 + d.below(4));
      break;
    case 3:
      x.what = kind::freeze;
      x.span = milliseconds{1 + d.below(d.one_in(2) ? 1000 : 8000)};
      if (d.one_in(4)) x.who = role::all;
      break;
    case 4:
      x.what = d.one_in(3) ? kind::cut_out : kind::cut;
      x.span = milliseconds{1 + d.below(d.one_in(2) ? 1000 : 8000)};
      break;
    case 5:
      x = {kind::switches, role::server, 0, x.at, {}, drawn_policy(d, s)};
      break;
    case 6:
      x = {s.keeps ? kind::checkpoint : kind::leave, s.keeps ? role::server : role::worker,
           s.keeps ? 0 : static_cast<std::uint32_t>(d.below(s.workers)), x.at};
      break;
    case 7:
      if (s.keeps && d.one_in(2))
        x = drawn_crash(d, x.at);
      else
        x = {d.one_in(2) ? kind::full_disk : kind::slow_disk,
             role::server,
             0,
             x.at,
             milliseconds{1 + d.below(2000)},
             d.one_in(2) ? "torn" : ""};
      break;
    case 8:
      x = {kind::twin, role::worker, static_cast<std::uint32_t>(d.below(s.workers)), d.up_to(begin + lasts)};
      break;
    default:
      if (d.one_in(3))
        x = {kind::stop, role::server, 0, x.at};
      else
        x = {kind::leave, role::worker, static_cast<std::uint32_t>(d.below(s.workers + extra)), x.at};
    }
    all.push_back(std::move(x));
  }
  std::ranges::stable_sort(all, {}, &deed::at);
  return all;
}

} // namespace mailgrad::systems
