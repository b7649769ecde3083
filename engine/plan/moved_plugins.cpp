#include <mailgrad/engine/plan/moved_plugins.hpp>

#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/options/whole_name.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

std::vector<std::string> plugins_in(const run_facts& facts) {
  std::vector<std::string> files;
  for (const auto& [what, is] : facts)
    if (std::string file = plugin_of_fact(what); !file.empty()) files.push_back(std::move(file));
  return files;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  text = with_name_replaced(std::move(text), from, to);
}

void rename(const std::string& from, const std::string& to, checkpoint_card& card, kept_schedule& schedule) {
  for (auto& [what, is] : card.facts) {
    replace_all(what, from, to);
    replace_all(is, from, to);
  }
  replace_all(schedule.policy, from, to);
  for (auto& [step, policy] : schedule.planned) replace_all(policy, from, to);
  for (auto& [policy, why] : schedule.asked) replace_all(policy, from, to);
}

} // namespace

void name_plugins_as_here(const run_facts& here, checkpoint_card& card, kept_schedule& schedule) {
  const std::vector<std::string> now = plugins_in(here);
  for (const std::string& was : plugins_in(card.facts)) {
    if (std::ranges::find(now, was) != now.end()) continue;
    const auto name = std::filesystem::path(was).filename();
    const auto same = std::ranges::find_if(
        now, [&](const std::string& is) { return std::filesystem::path(is).filename() == name; });
    if (same != now.end()) rename(was, *same, card, schedule);
  }
}

} // namespace mailgrad
