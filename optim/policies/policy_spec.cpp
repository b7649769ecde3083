#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/backup.hpp>
#include <mailgrad/optim/policies/counted_batch.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>
#include <mailgrad/optim/policies/dssp.hpp>
#include <mailgrad/optim/policies/k_async.hpp>
#include <mailgrad/optim/policies/malenia.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/optim/policies/quorum.hpp>
#include <mailgrad/optim/policies/ringleader.hpp>
#include <mailgrad/optim/policies/ringmaster.hpp>
#include <mailgrad/optim/policies/ssp.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace mailgrad {

namespace {

using policy_numbers = std::span<const std::uint64_t>;
using maker = std::unique_ptr<policy> (*)(policy_numbers, world_size);

/// Nothing for a class whose workers use no shard.
template <class Policy>
constexpr maker maker_of() {
  if constexpr (std::is_base_of_v<policy, Policy>)
    return make_custom_policy<Policy>;
  else
    return [](policy_numbers, world_size) -> std::unique_ptr<policy> { return nullptr; };
}

enum class limit : std::uint8_t { none, workers, workers_but_one };

/// How many numbers stand after a policy's colon, what they mean, and their range.
struct number_rule {
  std::size_t count = 0;
  std::string_view what;
  std::uint64_t least = 0;
  limit most = limit::none;
  bool ascending = false;     ///< of two numbers, the second must be no less than the first
  std::string_view seconds{}; ///< the name of a time behind them, "grace=0.5", which may be left out
  std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  bool gathers = false; ///< an update is made of so many gradients at least
};

struct known_policy {
  std::string_view name;
  policy_form form;
  std::string_view example;
  number_rule rule;
  maker make;
};

template <class Policy>
constexpr known_policy plain(std::string_view what) {
  constexpr std::string_view name = Policy::policy_name;
  return {name, {name, what}, name, {}, maker_of<Policy>()};
}

template <class Policy>
constexpr known_policy numbered(std::string_view form, std::string_view example, const number_rule& rule,
                                std::string_view what) {
  return {Policy::policy_name, {form, what}, example, rule, maker_of<Policy>()};
}

/// A number of gradients, of which an update is made at least.
constexpr number_rule gathered(std::string_view what) {
  number_rule rule{1, what, 1};
  rule.gathers = true;
  return rule;
}

constexpr std::array known_policies{
    plain<async_policy>("each gradient is applied as it comes; no worker waits"),
    plain<sync_policy>("one update from the mean of one gradient of each worker; all wait for the slowest"),
    plain<hogwild_policy>("workers write to one shared block of weights without locks"),
    numbered<ssp_policy>("ssp:S", "ssp:3", {1, "the bound S"},
                         "as async, but a worker may be at most S steps ahead of the slowest"),
    numbered<dssp_policy>("dssp:LO,HI", "dssp:1,4", {2, "each bound", 0, limit::none, true},
                          "as ssp, with a bound between LO and HI that makes the fastest wait least"),
    numbered<backup_policy>("backup:B", "backup:1",
                            {1, "the number B of backup workers", 0, limit::workers_but_one},
                            "as sync, without the B slowest, whose gradients are dropped"),
    numbered<k_async_policy>("k-async:K", "k-async:2", {1, "the number K of workers", 1, limit::workers},
                             "one update from K workers' gradients, however stale; those K wait for it"),
    numbered<quorum_policy>(
        "quorum:K,grace=S", "quorum:4,grace=0.5",
        {1, "the number K of workers", 1, limit::workers, false, "grace"},
        "one update from K workers' gradients or more, who come within a grace of S seconds"),
    numbered<k_batch_async_policy>("k-batch-async:K", "k-batch-async:4",
                                   gathered("the number K of gradients"),
                                   "one update from any K gradients, however stale; no worker waits"),
    numbered<queue_policy>("queue:B,Q", "queue:2,8", {2, "each number", 1, limit::none, true, {}, 1'000'000},
                           "gradients queue up; one update from the first B whenever more than Q wait"),
    numbered<k_batch_sync_policy>("k-batch-sync:K", "k-batch-sync:4", gathered("the number K of gradients"),
                                  "one update from any K fresh gradients; stale ones are dropped"),
    numbered<rennala_policy>("rennala:B", "rennala:4", gathered("the number B of gradients"),
                             "one update from any B fresh gradients; stale ones are dropped"),
    numbered<malenia_policy>(
        "malenia:S", "malenia:8", gathered("the number S"),
        "one update from each worker's mean of fresh gradients, S by their harmonic mean"),
    plain<ringleader_policy>("an update of each worker's mean for every worker in turn; no worker waits"),
    numbered<ringmaster_policy>("ringmaster:R", "ringmaster:4", {1, "the threshold R", 1},
                                "as async, but a gradient R or more updates old is dropped"),
};

struct custom_known_policy {
  std::string word, form;
  known_policy known;

  custom_known_policy(std::string_view called, const custom_policy_entry& entry)
      : word(called), form(word + (entry.numbers == 0   ? ""
                                   : entry.numbers == 1 ? ":1"
                                                        : ":1,2")),
        known{word, {form, "of your own"}, form, {entry.numbers, "each number"}, entry.make} {}
  custom_known_policy(const custom_known_policy&) = delete; // `known` points into it
  custom_known_policy& operator=(const custom_known_policy&) = delete;
  static bool can_be_made(const custom_policy_entry& e) { return e.make && e.numbers <= 2; }
};

auto& policies() {
  static choice_registry<known_policy, custom_known_policy, custom_policy_entry> all(
      {"policy", "policies", "", "mailgrad_plugin_policy", custom_policy_version}, known_policies);
  return all;
}

/// The time in "grace=0.5".
std::uint64_t nanoseconds_in(const named_choice& choice, const known_policy& p, std::string_view word) {
  constexpr double longest = 1e6; // seconds
  const std::size_t at = word.find('=');
  const auto seconds = at == word.npos ? std::nullopt : parse_number(word.substr(at + 1));
  if (word.substr(0, at) != p.rule.seconds || !seconds || !(*seconds >= 0 && *seconds <= longest))
    refuse_policy(choice.text, fmt::format("'{}' is no time; write it as {}, in seconds from 0 to {}", word,
                                           p.example, longest));
  return static_cast<std::uint64_t>(std::llround(*seconds * 1e9));
}

std::vector<std::uint64_t> numbers_of(const named_choice& choice, const known_policy& p) {
  if (!choice.arguments.empty() && p.rule.count == 0)
    refuse_policy(choice.text, fmt::format("'{}' takes no number", p.name));
  std::vector<std::uint64_t> all;
  std::span<const std::string_view> words = choice.arguments;
  const bool timed = !p.rule.seconds.empty() && words.size() == p.rule.count + 1;
  const std::uint64_t time = timed ? nanoseconds_in(choice, p, words.back()) : 0;
  if (timed) words = words.first(p.rule.count);
  for (const std::string_view word : words) {
    const auto n = parse_whole(word);
    if (!n || *n < p.rule.least)
      refuse_policy(choice.text, fmt::format("{} must be a whole number from {} on, such as {}", p.rule.what,
                                             p.rule.least, p.example));
    if (*n > p.rule.largest)
      refuse_policy(choice.text, fmt::format("{} must be at most {}", p.rule.what, p.rule.largest));
    all.push_back(*n);
  }
  if (all.size() != p.rule.count)
    refuse_policy(choice.text, fmt::format("it takes {} {}, such as {}", p.rule.count,
                                           p.rule.count == 1 ? "number" : "numbers", p.example));
  if (!p.rule.seconds.empty()) all.push_back(time);
  if (p.rule.ascending && all[0] > all[1])
    refuse_policy(choice.text,
                  fmt::format("the second number must be no less than the first, such as {}", p.example));
  return all;
}

void check_against(std::string_view text, const known_policy& p, std::uint64_t n, std::uint32_t workers) {
  if (p.rule.most == limit::none) return;
  const std::uint64_t most = p.rule.most == limit::workers ? workers : std::max(workers, 1U) - 1;
  if (n <= most) return;
  refuse_policy(text, fmt::format("with {} {} {} can be at most {}", workers,
                                  workers == 1 ? "worker" : "workers", p.rule.what, most));
}

/// Whether a verdict depends on who came first, or on when. Where it depends on the versions since a
/// gradient's weights were read, as with ringmaster, it does. One of a user's own may.
bool reads_arrival(std::string_view name) {
  constexpr std::array read_none{async_policy::policy_name, sync_policy::policy_name,
                                 ssp_policy::policy_name};
  return std::ranges::find(read_none, name) == read_none.end();
}

} // namespace

[[noreturn]] void refuse_policy(std::string_view text, const std::string& why) {
  throw std::invalid_argument(fmt::format("policy '{}': {}", text, why));
}
std::vector<std::string_view> policy_names() { return policies().names(); }
std::vector<policy_form> policy_forms() {
  std::vector<policy_form> forms;
  for (const known_policy& p : known_policies) forms.push_back(p.form);
  return forms;
}
void register_policy(const custom_policy_entry& entry) { policies().add(entry); }
void register_policy(const custom_policy_entry& entry, std::string_view word) { policies().add(word, entry); }
bool is_known_policy(std::string_view word) { return policies().find(word) != nullptr; }
void require_loaded(std::string_view text) {
  if (const std::string_view word = name_of_choice(text); names_a_plugin(word) && !is_known_policy(word))
    refuse_policy(text, "a plug-in is loaded by the process that names it, and by no other");
}

policy_spec::policy_spec(std::string_view text, std::uint32_t workers) : text_(text), workers_(workers) {
  const named_choice choice(text);
  const known_policy& p = policies().find_or_load(choice.name);
  numbers_ = numbers_of(choice, p);
  for (std::size_t i = 0; i < p.rule.count; ++i) check_against(text, p, numbers_[i], workers);
  if (p.rule.gathers) gathers_ = numbers_.front();
  make_ = p.make;
  const auto made = make();
  traits_.needs_shards = made != nullptr;
  if (!made) return;
  // Gradients wait for their round or in a queue. A shard would fill both, and empty one.
  if (made->has_rounds() && (made->takes_first() > 0 || made->queue_length() > 0))
    refuse_policy(text,
                  "has rounds, and its gradients would wait in a queue as well: expected takes_first() and "
                  "queue_length() of 0 beside has_rounds()");
  traits_ = {true,
             made->always_fresh(),
             made->makes_batches(),
             made->shards_agree(),
             made->deals_by_rank(),
             made->queue_length(),
             made->most_stale().has_value(),
             made->has_rounds(),
             reads_arrival(made->name())};
}

std::unique_ptr<policy> policy_spec::make() const { return make_(numbers_, {workers_}); }
std::unique_ptr<policy> make_policy(std::string_view text, std::uint32_t workers) {
  std::unique_ptr<policy> made = policy_spec(text, workers).make();
  if (!made) refuse_policy(text, "its workers ask no parameter actor");
  return made;
}

} // namespace mailgrad
