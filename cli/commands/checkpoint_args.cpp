#include <mailgrad/cli/commands/checkpoint_args.hpp>

#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/options/spelling.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <ranges>
#include <system_error>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

bool is_here(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

/// Whether the value of an option that names something to read is no path, or leads to something here.
bool leads_somewhere(std::string_view option, const std::string& value) {
  if (value.empty() || is_here(value)) return true;
  if (option == "--model") return built_in_model(value) || value.starts_with('{');
  if (option != "--data") return false;
  const auto folders = file_options{}.search;
  return std::ranges::any_of(folders, [&](const fs::path& folder) { return is_here(folder / value); });
}

/// A run that was killed has left what it had written of an output under another name.
bool was_written_here(const std::string& value) {
  return value.empty() || value == output_file::standard_output || is_here(value) ||
         is_here(replaced_file::partial(value));
}

std::string in_folder(const fs::path& folder, const std::string& path) {
  return (folder / path).lexically_normal().string();
}

std::string with_plugins_from(std::string value, std::string_view option, const fs::path& folder) {
  for (const std::string& file : plugins_in(option, value)) {
    if (is_here(file) || fs::path(file).is_absolute()) continue;
    value = with_name_replaced(std::move(value), file, in_folder(folder, file));
  }
  return value;
}

/// "trace:times.csv", the only law of delays that reads a file.
std::string with_trace_from(const std::string& law, const fs::path& folder) {
  constexpr std::string_view of_a_file = "trace:";
  if (!law.starts_with(of_a_file)) return law;
  const std::string file = law.substr(of_a_file.size());
  return fs::path(file).is_absolute() || is_here(file) ? law
                                                       : std::string(of_a_file) + in_folder(folder, file);
}

std::string found_from(const std::string& value, std::string_view option, const fs::path& folder) {
  if (fs::path(value).is_absolute()) return value;
  if (option == "--delays") return with_trace_from(value, folder);
  if (is_output_option(option)) return was_written_here(value) ? value : in_folder(folder, value);
  if (option == "--data" || option == "--model" || option == "--keys")
    return leads_somewhere(option, value) ? value : in_folder(folder, value);
  return with_plugins_from(value, option, folder);
}

using seconds = std::chrono::seconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
    {{"", 0}, {"s", 1}, {"min", 60}, {"h", 3600}}};

constexpr std::uint64_t longest = 1'000'000; ///< of any unit, so that nanoseconds do not overflow

std::string folder_of_args(const checkpoint& from) {
  std::string folder; // older ones do not tell it
  if (from.has(folder_of_args_part)) from.part(folder_of_args_part)->field("folder", folder);
  return folder;
}

} // namespace

std::vector<std::string> plugins_in(std::string_view option, const std::string& value) {
  if (option == "--policy") return plugins_of_policy(value);
  if (option == "--cure") return plugins_of_cure(value);
  if (option != "--optimizer" && option != "--outer-optimizer") return {};
  const std::string_view name = name_of_choice(value);
  return names_a_plugin(name) ? std::vector{std::string(name)} : std::vector<std::string>();
}

std::vector<std::string> plugins_in(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    const std::string_view option = option_args::option_of(word);
    if (option.size() == word.size()) continue;
    for (std::string& file : plugins_in(option, word.substr(option.size() + 1)))
      if (std::ranges::find(all, file) == all.end()) all.push_back(std::move(file));
  }
  return all;
}

args_from_there found_from(option_args words, const fs::path& typed_in) {
  std::error_code unknown;
  if (typed_in.empty() || typed_in == fs::current_path(unknown) || !fs::is_directory(typed_in, unknown))
    return {std::move(words)};
  args_from_there found;
  for (const std::string& word : words.all()) {
    const std::string_view option = option_args::option_of(word);
    const std::string value = option.size() < word.size() ? word.substr(option.size() + 1) : "";
    const std::string now = found_from(value, option, typed_in);
    if (now != value) found.options.emplace_back(option);
    found.words.set(now == value ? word : std::string(option) + '=' + now);
  }
  return found;
}

checkpoint_options understood(const checkpoint_args& w) {
  checkpoint_options o;
  o.folder = w.folder;
  o.keep = w.keep;
  std::uint64_t count = 0;
  const auto [end, wrong] = std::from_chars(w.every.data(), w.every.data() + w.every.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(w.every.data() + w.every.size() - end));
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, std::int64_t>::first);
  const bool timed = found != units.end() && found->second > 0;
  if (wrong != std::errc() || count == 0 || found == units.end() || (timed && count > longest))
    reject("--checkpoint-every: '{}' is no interval; a number of mini-batches, as 500, or a time, as 30s, "
           "10min or 2h",
           w.every);
  if (timed)
    o.every = seconds(static_cast<std::int64_t>(count) * found->second);
  else
    o.every_steps = count;
  return o;
}

chosen_checkpoint checkpoint_to_resume(const checkpoint_args& w) {
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

checkpoint_card card_of(const checkpoint& from) {
  checkpoint_card card;
  from.part("run")->field("card", card);
  return card;
}

std::string policies_from(const checkpoint& from) {
  kept_schedule schedule;
  from.part("run")->field("schedule", schedule);
  std::string text = schedule.policy;
  for (const auto& [step, policy] : schedule.planned) text += fmt::format(", {}@{}", policy, step);
  return text;
}

args_from_there words_in(const checkpoint& from) { return found_from(from, card_of(from).words); }

args_from_there found_from(const checkpoint& from, std::vector<std::string> words) {
  return found_from(option_args(with_present_names(std::move(words))), folder_of_args(from));
}

std::string format_paths(const checkpoint& from, const option_args& given, const checkpoint_args& w) {
  std::string text;
  for (const std::string& option : words_in(from).options)
    if (!given.has(option) && (w.same_outputs || !is_output_option(option)))
      text += (text.empty() ? "" : ", ") + option;
  if (text.empty()) return {};
  return fmt::format("; the paths of {} are those of {}", text, folder_of_args(from));
}

std::vector<std::string> args_of_keeping(const checkpoint& from) {
  option_args words = words_in(from).words;
  words.drop_if([](std::string_view o) { return o != "--checkpoint-every" && o != "--keep"; });
  std::vector<std::string> all = words.take();
  all.insert(all.begin(), "--checkpoint=" + folder_of(from.path()).string());
  return all;
}

std::string format_left_out(const checkpoint& from, const option_args& given, const checkpoint_args& w) {
  option_args recorded = words_in(from).words;
  recorded.drop_if([&](std::string_view option) {
    return w.same_outputs || !is_output_option(option) || given.has(option);
  });
  if (recorded.all().empty()) return {};
  return fmt::format("; without {}, which --same-outputs would write",
                     fmt::join(recorded.all() | std::views::transform(printable), ", "));
}

option_args args_to_resume(const checkpoint& from, const option_args& given, const checkpoint_args& w) {
  option_args words = words_in(from).words;
  if (!w.same_outputs) words.drop_if(is_output_option);
  words.set("--checkpoint=" + folder_of(from.path()).string());
  if (given.has("--steps") || given.has("--epochs")) words.drop({"--steps", "--epochs"});
  for (const std::string& word : given.all()) // who goes on with cores alone may have no GPU
    if (option_args::option_of(word) == "--devices" && !names_gpu(word.substr(word.find('=') + 1)))
      words.drop({"--parameters", "--run-ahead"});
  words.set(given);
  return words;
}

} // namespace mailgrad
