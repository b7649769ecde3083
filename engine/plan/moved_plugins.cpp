#include <mailgrad/engine/plan/moved_plugins.hpp>

#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/options/whole_name.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

struct told_plugin {
  std::string file;
  std::string sha256;
};

std::vector<told_plugin> plugins_in(const run_facts& facts) {
  std::vector<told_plugin> all;
  for (const auto& [what, is] : facts)
    if (std::string file = plugin_of_fact(what); !file.empty()) all.push_back({std::move(file), is});
  return all;
}

/// How well a plug-in here fits one of the checkpoint. The same bytes tell it from another of its name.
enum class likeness : std::uint8_t { none, of_name, of_path, of_bytes, of_both };

likeness likeness_of(const told_plugin& was, const told_plugin& is) {
  if (std::filesystem::path(was.file).filename() != std::filesystem::path(is.file).filename())
    return likeness::none;
  if (was.sha256 == is.sha256) return was.file == is.file ? likeness::of_both : likeness::of_bytes;
  return was.file == is.file ? likeness::of_path : likeness::of_name;
}

/// Takes the one of `left` that fits best out of it; null if none does.
std::optional<told_plugin> taken_for(const told_plugin& was, std::vector<told_plugin>& left) {
  const auto best =
      std::ranges::max_element(left, {}, [&](const told_plugin& is) { return likeness_of(was, is); });
  if (best == left.end() || likeness_of(was, *best) == likeness::none) return std::nullopt;
  told_plugin found = std::move(*best);
  left.erase(best);
  return found;
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

/// Those that are told surely, by their bytes, take theirs first.
void name_plugins_as_here(const run_facts& here, checkpoint_card& card, kept_schedule& schedule) {
  std::vector<told_plugin> left = plugins_in(here), all = plugins_in(card.facts);
  std::ranges::stable_partition(all, [&](const told_plugin& was) {
    return std::ranges::any_of(
        left, [&](const told_plugin& is) { return likeness_of(was, is) >= likeness::of_bytes; });
  });
  std::vector<std::pair<std::string, std::string>> names; // between, which no path has, and here
  for (const told_plugin& was : all)
    if (const auto is = taken_for(was, left); is && is->file != was.file) {
      names.emplace_back(fmt::format("\x01{}\x01", names.size()), is->file);
      rename(was.file, names.back().first, card, schedule);
    }
  for (const auto& [between, file] : names) rename(between, file, card, schedule);
}

} // namespace mailgrad
