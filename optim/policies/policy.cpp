#include <mailgrad/optim/policies/policy.hpp>

#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/backup.hpp>
#include <mailgrad/optim/policies/dssp.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/k_async.hpp>
#include <mailgrad/optim/policies/k_batch_async.hpp>
#include <mailgrad/optim/policies/k_batch_sync.hpp>
#include <mailgrad/optim/policies/own_policy.hpp>
#include <mailgrad/optim/policies/rennala.hpp>
#include <mailgrad/optim/policies/ringmaster.hpp>
#include <mailgrad/optim/policies/ssp.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/options/nearest_name.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <mutex>
#include <span>
#include <stdexcept>

namespace mailgrad {

namespace {

using numbers = std::span<const std::uint64_t>;
using maker = std::unique_ptr<policy> (*)(numbers, world_size);

template <class Policy>
std::unique_ptr<policy> make([[maybe_unused]] numbers n, [[maybe_unused]] world_size workers) {
  if constexpr (!std::is_base_of_v<policy, Policy>)
    return nullptr; // its workers ask nobody
  else if constexpr (std::is_default_constructible_v<Policy>)
    return std::make_unique<Policy>();
  else if constexpr (std::is_constructible_v<Policy, std::uint64_t, std::uint64_t>)
    return std::make_unique<Policy>(n[0], n[1]);
  else if constexpr (std::is_constructible_v<Policy, std::uint64_t, world_size>)
    return std::make_unique<Policy>(n[0], workers);
  else
    return std::make_unique<Policy>(n[0]);
}

/// Most that a number may be.
enum class limit : std::uint8_t { none, workers, workers_but_one };

/// What the numbers behind a policy's colon are, and which are right.
struct number_rule {
  std::size_t count = 0;
  std::string_view what;
  std::uint64_t least = 0;
  limit most = limit::none;
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
  return {name, {name, what}, name, {}, make<Policy>};
}

template <class Policy>
constexpr known_policy numbered(std::string_view form, std::string_view example, const number_rule& rule,
                                std::string_view what) {
  return {Policy::policy_name, {form, what}, example, rule, make<Policy>};
}

constexpr std::array known{
    plain<async_policy>("each gradient is applied as it comes; nobody waits"),
    plain<sync_policy>("one update from the mean of one gradient of each worker; all wait for the slowest"),
    plain<hogwild_policy>("workers write into one shared block without asking anybody"),
    numbered<ssp_policy>("ssp:S", "ssp:3", {1, "the bound S"},
                         "as async, but a worker may be at most S steps ahead of the slowest"),
    numbered<dssp_policy>("dssp:LO,HI", "dssp:1,4", {2, "each bound"},
                          "as ssp, with a bound between LO and HI that makes the fastest wait least"),
    numbered<backup_policy>("backup:B", "backup:1",
                            {1, "the number B of backup workers", 0, limit::workers_but_one},
                            "as sync, without the B slowest, whose gradients are dropped"),
    numbered<k_async_policy>("k-async:K", "k-async:2", {1, "the number K of workers", 1, limit::workers},
                             "one update from K workers' gradients, however stale; those K wait for it"),
    numbered<k_batch_async_policy>("k-batch-async:K", "k-batch-async:4", {1, "the number K of gradients", 1},
                                   "one update from any K gradients, however stale; nobody waits"),
    numbered<k_batch_sync_policy>("k-batch-sync:K", "k-batch-sync:4", {1, "the number K of gradients", 1},
                                  "one update from any K fresh gradients; stale ones are dropped"),
    numbered<rennala_policy>("rennala:B", "rennala:4", {1, "the number B of gradients", 1},
                             "one update from any B fresh gradients; stale ones are dropped"),
    numbered<ringmaster_policy>("ringmaster:R", "ringmaster:4", {1, "the threshold R", 1},
                                "as async, but a gradient R or more updates old is dropped"),
};

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw std::invalid_argument("policy '" + std::string(text) + "': " + why);
}

/// Policies of users' own, by what an option calls them: a name, or the file of a plug-in.
class own_policies {
public:
  const known_policy* find(std::string_view word) {
    std::lock_guard guard(mutex_);
    return find_unlocked(word);
  }

  const known_policy& add(const own_policy_entry& entry, std::string_view word) {
    std::lock_guard guard(mutex_);
    if (const known_policy* before = find_unlocked(word)) {
      if (before->make != entry.make) fail(word, "another policy of your own has this name");
      return *before;
    }
    own& added = all_.emplace_back();
    added.word = word;
    added.form = added.word + (entry.numbers == 0 ? "" : entry.numbers == 1 ? ":1" : ":1,2");
    added.policy = {
        added.word, {added.form, "of your own"}, added.form, {entry.numbers, "each number"}, entry.make};
    return added.policy;
  }

  std::vector<std::string_view> words() {
    std::lock_guard guard(mutex_);
    std::vector<std::string_view> all;
    for (const own& o : all_) all.push_back(o.word);
    return all;
  }

private:
  struct own {
    std::string word, form;
    known_policy policy;
  };

  const known_policy* find_unlocked(std::string_view word) const {
    const auto found = std::ranges::find(all_, word, &own::word);
    return found == all_.end() ? nullptr : &found->policy;
  }

  std::mutex mutex_;
  std::deque<own> all_; ///< none is ever removed, and none moves
};

own_policies& registered() {
  static own_policies all;
  return all;
}

void require_usable(std::string_view word, const own_policy_entry& entry) {
  if (entry.interface_version != own_policy_version)
    fail(word, "has version " + std::to_string(entry.interface_version) +
                   " of the interface for policies, this mailgrad has version " +
                   std::to_string(own_policy_version));
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (entry.name.empty() || !std::ranges::all_of(entry.name, fits))
    fail(word, "the name of a policy is of letters, digits, '-' and '_'");
  if (!entry.make || entry.numbers > 2) fail(word, "its entry says not how it is made");
}

const known_policy& load(std::string_view file) {
  plugin_library library(file, [file](const std::string& why) { fail(file, why); });
  const auto& entry = *static_cast<const own_policy_entry*>(library.table_from("mailgrad_plugin_policy"));
  require_usable(file, entry);
  const known_policy& added = registered().add(entry, file);
  library.keep();
  return added;
}

const known_policy& find(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto found = std::ranges::find(known, name, &known_policy::name);
  if (found != known.end()) return *found;
  if (const known_policy* own = registered().find(name)) return *own;
  if (names_a_plugin(name)) return load(name);
  throw std::invalid_argument("policy '" + std::string(name) + "' is unknown; " +
                              suggestion(name, policy_names()));
}

std::string such_as(const known_policy& p) { return ", such as " + std::string(p.example); }

std::uint64_t read_number(std::string_view text, std::string_view word, const known_policy& p) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size() || n < p.rule.least)
    fail(text, std::string(p.rule.what) + " must be a whole number from " + std::to_string(p.rule.least) +
                   " on" + such_as(p));
  return n;
}

std::vector<std::uint64_t> read_numbers(std::string_view text, const known_policy& p) {
  std::vector<std::uint64_t> all;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && p.rule.count == 0)
    fail(text, "'" + std::string(p.name) + "' takes no number");
  if (colon != std::string_view::npos) {
    std::string_view rest = text.substr(colon + 1);
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      all.push_back(read_number(text, rest.substr(0, comma), p));
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
  }
  if (all.size() != p.rule.count)
    fail(text, "it takes " + std::to_string(p.rule.count) + (p.rule.count == 1 ? " number" : " numbers") +
                   such_as(p));
  if (all.size() == 2 && all[0] > all[1])
    fail(text, "the second bound must be no less than the first" + such_as(p));
  return all;
}

void check_against(std::string_view text, const known_policy& p, std::uint64_t n, std::uint32_t workers) {
  if (p.rule.most == limit::none) return;
  const std::uint64_t most = p.rule.most == limit::workers ? workers : std::max(workers, 1U) - 1;
  if (n <= most) return;
  fail(text, "with " + std::to_string(workers) + (workers == 1 ? " worker " : " workers ") +
                 std::string(p.rule.what) + " can be at most " + std::to_string(most));
}

std::vector<std::uint64_t> checked_numbers(std::string_view text, std::uint32_t workers) {
  const known_policy& p = find(text);
  std::vector<std::uint64_t> all = read_numbers(text, p);
  for (const std::uint64_t n : all) check_against(text, p, n, workers);
  return all;
}

} // namespace

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  names.reserve(known.size());
  for (const known_policy& p : known) names.push_back(p.name);
  for (const std::string_view own : registered().words()) names.push_back(own);
  return names;
}

std::vector<policy_form> policy_forms() {
  std::vector<policy_form> forms;
  forms.reserve(known.size());
  for (const known_policy& p : known) forms.push_back(p.form);
  return forms;
}

void register_policy(const own_policy_entry& entry) {
  require_usable(entry.name, entry);
  if (std::ranges::find(known, entry.name, &known_policy::name) != known.end())
    fail(entry.name, "is one of Mailgrad's; give yours another name");
  registered().add(entry, entry.name);
}

void require_policy(std::string_view text, std::uint32_t workers) { checked_numbers(text, workers); }

std::unique_ptr<policy> make_policy(std::string_view text, std::uint32_t workers) {
  std::unique_ptr<policy> made = find(text).make(checked_numbers(text, workers), {workers});
  if (!made) fail(text, "its workers ask no parameter actor");
  return made;
}

bool keeps_in_step(std::string_view text) { return text == sync_policy::policy_name; }

} // namespace mailgrad
