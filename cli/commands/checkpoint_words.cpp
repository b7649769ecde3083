#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/cli/device_option.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/printable.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

using seconds = std::chrono::seconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
    {{"", 0}, {"s", 1}, {"min", 60}, {"h", 3600}}};

constexpr std::uint64_t longest = 1'000'000; ///< of any unit, so that nanoseconds do not overflow

std::string folder_of_words(const checkpoint& from) {
  std::string folder; // older ones do not tell it
  if (from.has(folder_of_words_part)) from.part(folder_of_words_part)->field("folder", folder);
  return folder;
}

} // namespace

checkpoint_options understood(const checkpoint_words& w) {
  checkpoint_options o;
  o.folder = w.folder;
  o.keep = w.keep;
  std::uint64_t count = 0;
  const auto [end, wrong] = std::from_chars(w.every.data(), w.every.data() + w.every.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(w.every.data() + w.every.size() - end));
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, std::int64_t>::first);
  const bool timed = found != units.end() && found->second > 0;
  if (wrong != std::errc() || count == 0 || found == units.end() || (timed && count > longest))
    throw std::invalid_argument(fmt::format("--checkpoint-every: '{}' is no interval; a number of "
                                            "mini-batches, as 500, or a time, as 30s, 10min or 2h",
                                            w.every));
  if (timed)
    o.every = seconds(static_cast<std::int64_t>(count) * found->second);
  else
    o.every_steps = count;
  return o;
}

chosen_checkpoint checkpoint_to_resume(const checkpoint_words& w) {
  if (w.resume.empty()) return {};
  found_checkpoint found = newest_checkpoint(w.resume);
  std::string why;
  for (const std::string& line : found.refused)
    why += (why.empty() ? ", since no newer checkpoint can be read: " : "; ") + line;
  std::error_code unknown;
  const bool newest = std::filesystem::is_directory(w.resume, unknown);
  std::string words = fmt::format("resuming from {}{}", found.what.path().string(), why);
  return {std::make_shared<const checkpoint>(std::move(found.what)), newest, std::move(words)};
}

std::uint64_t steps_done(const checkpoint& from) {
  checkpoint_card card;
  from.part("run")->field("card", card);
  return card.steps;
}

std::string policies_from(const checkpoint& from) {
  checkpoint_card card;
  kept_schedule schedule;
  const auto run = from.part("run");
  run->field("card", card);
  run->field("schedule", schedule);
  std::string text = schedule.policy;
  for (const auto& [step, policy] : schedule.planned) text += fmt::format(", {}@{}", policy, step);
  return text;
}

words_from_there words_in(const checkpoint& from) {
  checkpoint_card card;
  from.part("run")->field("card", card);
  return found_from(from, std::move(card.words));
}

words_from_there found_from(const checkpoint& from, std::vector<std::string> words) {
  return found_from(option_words(std::move(words)), folder_of_words(from));
}

std::string paths_in_words(const checkpoint& from, const option_words& given, const checkpoint_words& w) {
  std::string text;
  for (const std::string& option : words_in(from).options)
    if (!given.has(option) && (w.same_outputs || !is_output_option(option)))
      text += (text.empty() ? "" : ", ") + option;
  if (text.empty()) return {};
  return fmt::format("; the paths of {} are those of {}", text, folder_of_words(from));
}

std::vector<std::string> words_of_keeping(const checkpoint& from) {
  std::vector<std::string> words{"--checkpoint=" + folder_of(from.path()).string()};
  const option_words kept = words_in(from).words;
  for (const std::string& word : kept.all())
    if (const auto option = option_words::option_of(word);
        option == "--checkpoint-every" || option == "--keep")
      words.push_back(word);
  return words;
}

std::string left_out_in_words(const checkpoint& from, const option_words& given, const checkpoint_words& w) {
  std::string text;
  const option_words recorded = words_in(from).words;
  for (const std::string& word : recorded.all()) {
    const std::string_view option = option_words::option_of(word);
    if (!w.same_outputs && is_output_option(option) && !given.has(option))
      text += (text.empty() ? "" : ", ") + printable(word);
  }
  return text.empty() ? text : fmt::format("; without {}, which --same-outputs would write", text);
}

option_words words_to_resume(const checkpoint& from, const option_words& given, const checkpoint_words& w) {
  const option_words recorded = words_in(from).words;
  option_words words = recorded;
  if (!w.same_outputs)
    for (const std::string& word : recorded.all())
      if (const auto option = option_words::option_of(word); is_output_option(option)) words.drop(option);
  words.set("--checkpoint=" + folder_of(from.path()).string());
  if (given.has("--steps") || given.has("--epochs")) words.drop({"--steps", "--epochs"});
  for (const std::string& word : given.all()) // who goes on with cores alone may have no card
    if (option_words::option_of(word) == "--devices" && !names_card(word.substr(word.find('=') + 1)))
      words.drop({"--parameters", "--run-ahead"});
  words.set(given);
  return words;
}

} // namespace mailgrad
