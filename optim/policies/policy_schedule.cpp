#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad {

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Whether a comma at `at` parts two policies, and not two settings of one, such as 4 or grace=0.5.
bool parts_policies(std::string_view text, std::size_t at) {
  const std::string_view rest = trimmed(text.substr(at + 1));
  if (rest.empty()) return true;
  const std::string_view word = rest.substr(0, rest.find_first_of(",:@/"));
  return (rest.front() < '0' || rest.front() > '9') && word.find('=') == word.npos;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',' || !parts_policies(text, at)) continue;
    parts.push_back(trimmed(text.substr(begin, at - begin)));
    begin = at + 1;
  }
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

/// "dssp : 1, 4" as "dssp:1,4"; a space inside a word stays, and is an error.
std::string without_spaces_at_separators(std::string_view text) {
  std::string compact;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(":,", begin), text.size());
    compact += trimmed(text.substr(begin, end - begin));
    if (end < text.size()) compact += text[end];
    begin = end + 1;
  }
  return compact;
}

std::uint64_t read_step(std::string_view part, std::string_view word) {
  const auto step = parse_whole(word);
  if (!step || *step == 0)
    refuse_policy(part, "the step behind '@' must be a whole number from 1 on, such as sync@1000");
  return *step;
}

/// Refuses an unknown policy as policy_spec does, but also lists `auto` among the known ones.
void require_known(std::string_view name) {
  const std::string_view word = name_of_choice(name);
  std::vector<std::string_view> names(policy_names());
  if (std::ranges::find(names, word) != names.end() || names_a_plugin(word)) return;
  names.push_back(auto_rule::policy_name);
  throw std::invalid_argument(fmt::format("policy '{}' is unknown; {}", word, suggestion(word, names)));
}

/// What stands before the step.
std::string policy_of(std::string_view part) {
  return without_spaces_at_separators(trimmed(part.substr(0, part.find('@'))));
}

scheduled_policy read(std::string_view part, bool first, std::uint32_t workers) {
  const std::size_t at = part.find('@');
  const std::string name = policy_of(part);
  if (is_automatic(name)) refuse_policy(part, "it switches by a rule of its own; take it alone");
  require_known(name);
  policy_spec spec(name, workers);
  if (first && at != part.npos)
    refuse_policy(part, fmt::format("the first policy begins with the run and takes no step: '{}'", name));
  if (!first && at == part.npos)
    refuse_policy(part, fmt::format("say at which step it begins, such as {}@1000", name));
  return {first ? 0 : read_step(part, trimmed(part.substr(at + 1))), std::move(spec)};
}

} // namespace

std::vector<std::string> plugins_of_policy(std::string_view text) {
  std::vector<std::string> files;
  for (const std::string_view part : split(text)) {
    const std::string policy = policy_of(part);
    if (const std::string_view word = name_of_choice(policy); names_a_plugin(word)) files.emplace_back(word);
  }
  return files;
}

bool is_automatic(std::string_view text) { return name_of_choice(trimmed(text)) == auto_rule::policy_name; }

void require_one_policy(std::string_view text) {
  if (split(text).size() == 1 && text.find('@') == text.npos && !is_automatic(text)) return;
  refuse_policy(text,
                "a switch takes one policy, such as ssp:2, which begins as soon as every worker has finished "
                "its step; schedules and auto begin with the run, by --policy");
}

std::vector<scheduled_policy> parse_policy_schedule(std::string_view text, std::uint32_t workers) {
  if (is_automatic(text)) {
    if (text.find('@') != text.npos) refuse_policy(text, "it switches by a rule of its own; take it alone");
    parse_auto(trimmed(text));
    return {{0, policy_spec(auto_rule::first_policy, workers)}};
  }
  std::vector<scheduled_policy> schedule;
  for (const std::string_view part : split(text)) {
    schedule.push_back(read(part, schedule.empty(), workers));
    if (schedule.size() > 1 && schedule.back().from_step <= schedule[schedule.size() - 2].from_step)
      refuse_policy(part, fmt::format("the policy before it begins at step {}; give a later one",
                                      schedule[schedule.size() - 2].from_step));
  }
  return schedule;
}

bool has_hogwild(const std::vector<scheduled_policy>& schedule) {
  return std::ranges::any_of(schedule,
                             [](const scheduled_policy& p) { return !p.policy.traits().needs_shards; });
}

} // namespace mailgrad
