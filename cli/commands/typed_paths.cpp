#include <mailgrad/cli/commands/typed_paths.hpp>

#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/options/spelling.hpp>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

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
    const std::string_view option = option_words::option_of(word);
    if (option.size() == word.size()) continue;
    for (std::string& file : plugins_in(option, word.substr(option.size() + 1)))
      if (std::ranges::find(all, file) == all.end()) all.push_back(std::move(file));
  }
  return all;
}

words_from_there found_from(option_words words, const fs::path& typed_in) {
  std::error_code unknown;
  if (typed_in.empty() || typed_in == fs::current_path(unknown) || !fs::is_directory(typed_in, unknown))
    return {std::move(words)};
  words_from_there found;
  for (const std::string& word : words.all()) {
    const std::string_view option = option_words::option_of(word);
    const std::string value = option.size() < word.size() ? word.substr(option.size() + 1) : "";
    const std::string now = found_from(value, option, typed_in);
    if (now != value) found.options.emplace_back(option);
    found.words.set(now == value ? word : std::string(option) + '=' + now);
  }
  return found;
}

} // namespace mailgrad
