#include <mailgrad/engine/plan/replay_places.hpp>

#include <mailgrad/engine/plan/computers_of_run.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

/// "a" and "b" of "a, b", if ", " is the mark.
std::vector<std::string_view> parts_of(std::string_view text, std::string_view mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + mark.size();
  }
  return parts;
}

/// What an option of the recorded run names; none if that is not known, or is not all on this machine.
std::vector<device> recorded_devices(const recording& r, std::string_view option,
                                     std::string_view if_not_given) {
  if (r.header.words.empty()) return {}; // a program has made it
  std::string list(if_not_given);
  for (const std::string_view word : r.header.words)
    if (word.starts_with(option) && word.substr(option.size()).starts_with('='))
      list = word.substr(option.size() + 1);
  std::erase(list, ' ');
  std::vector<device> all;
  try {
    for (const std::string_view name : parts_of(list, ",")) {
      all.push_back(name == "host" ? device{} : parse_device(name));
      require_here(all.back());
    }
  } catch (const device_error&) {
    return {};
  }
  return all;
}

using cards_here = std::vector<cuda::runtime::card>;

/// A core, or the first card of this name, as computer_in_words() gives it; none if there is no such card.
std::optional<device> device_named(std::string_view name, const cards_here& cards) {
  if (name == computer_in_words(device{})) return device{};
  const auto card = std::ranges::find(cards, name, &cuda::runtime::card::name);
  if (card == cards.end()) return {};
  return device{device_kind::cuda, static_cast<std::uint32_t>(card - cards.begin())};
}

/// What an option of a replay would have to be.
struct way_on {
  bool is_left_out = false; ///< what is recorded does
  std::string words = {};   ///< "--devices cuda:0", if not
  std::string lacking = {}; ///< the name of a card that this machine does not have
};

/// "--devices cuda:0,cuda:0/1,cpu:0" for names as names_in_words() gives them. Cards of one name are one card
/// here. A model needs different cores, while workers may share one.
way_on devices_like(std::string_view names) {
  const cards_here cards = cuda::runtime::find_cards().cards;
  std::map<std::uint32_t, std::uint32_t> lanes; // taken of each card
  std::string list;
  for (const std::string_view worker : parts_of(names, ", ")) {
    std::uint32_t cores = 0;
    for (const std::string_view name : parts_of(worker, " and ")) {
      std::optional<device> d = device_named(name, cards);
      if (!d) return {.lacking = std::string(name)};
      if (d->kind == device_kind::cpu)
        d->index = cores++;
      else
        d->lane = lanes[d->index]++;
      list += (list.empty() ? "" : ",") + to_string(*d);
    }
  }
  return {.words = "--devices " + list};
}

/// The fewest of these that are all of them if they are taken in turn.
std::size_t period_of(const std::vector<std::string_view>& all) {
  for (std::size_t n = 1; n < all.size(); ++n)
    if (std::equal(all.begin() + static_cast<std::ptrdiff_t>(n), all.end(), all.begin())) return n;
  return all.size();
}

/// "--parameters host,cuda:0" for names as updaters_in_words() gives them.
way_on places_like(std::string_view names) {
  std::vector<std::string_view> all = parts_of(names, ", ");
  all.resize(period_of(all));
  const cards_here cards = cuda::runtime::find_cards().cards;
  std::string list;
  for (const std::string_view name : all) {
    const std::optional<device> d = device_named(name, cards);
    if (!d) return {.lacking = std::string(name)};
    list += (list.empty() ? "" : ",") + (d->kind == device_kind::cpu ? "host" : to_string(*d));
  }
  return {.words = "--parameters " + list};
}

/// None if these workers round as the recorded ones did.
std::optional<way_on> way_of_workers(const recording& r, const run_facts& here) {
  if (!tells(here, computers_fact)) return {};
  const std::string told = told_fact(r.header.facts, computers_fact);
  if (told == told_fact(here, computers_fact)) return {};
  training_options as_recorded;
  as_recorded.devices = recorded_devices(r, "--devices", "cpu:0");
  as_recorded.workers = r.header.workers;
  const bool was_on_cores = !tells(r.header.facts, computers_fact);
  if (!as_recorded.devices.empty() && as_recorded.devices.size() % r.header.workers == 0) {
    const std::vector<worker_computer> computers = computers_of(as_recorded);
    if (was_on_cores ? !any_has_card(computers) : names_in_words(computers) == told)
      return way_on{.is_left_out = true};
  }
  return was_on_cores ? way_on{.words = "cores in --devices"} : devices_like(told);
}

/// None if these shards round as the recorded ones did.
std::optional<way_on> way_of_weights(const recording& r, const run_facts& here) {
  if (!tells(here, updaters_fact)) return {};
  const bool was_on_host = !tells(r.header.facts, updaters_fact);
  const std::string told =
      was_on_host ? computer_in_words(device{}) : told_fact(r.header.facts, updaters_fact);
  if (told == told_fact(here, updaters_fact)) return {};
  training_options as_recorded;
  as_recorded.parameters = recorded_devices(r, "--parameters", "host");
  as_recorded.shards = r.header.shards;
  if (!as_recorded.parameters.empty() && updaters_in_words(as_recorded) == told)
    return way_on{.is_left_out = true};
  return places_like(told);
}

} // namespace

std::string places_that_would_do(const recording& r, const run_facts& here) {
  std::vector<std::string> named, left_out;
  const std::optional<way_on> workers = way_of_workers(r, here), weights = way_of_weights(r, here);
  for (const auto& [option, way] : {std::pair("--devices", &workers), std::pair("--parameters", &weights)}) {
    if (!*way) continue;
    if (!(*way)->lacking.empty()) return fmt::format("; this machine has no card '{}'", (*way)->lacking);
    if ((*way)->is_left_out)
      left_out.emplace_back(option);
    else
      named.push_back((*way)->words);
  }
  std::string words;
  if (!left_out.empty()) words = fmt::format("; leave {} out", fmt::join(left_out, " and "));
  if (!named.empty()) words += fmt::format("; replay it with {}", fmt::join(named, " and "));
  return words;
}

} // namespace mailgrad
