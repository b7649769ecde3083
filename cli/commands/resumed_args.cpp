#include <mailgrad/cli/commands/resumed_args.hpp>

#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/options/spelling.hpp>

#include <iterator>
#include <ranges>
#include <system_error>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

/// The options of a checkpoint, for a command that may be typed in another folder than they were.
struct args_from_there {
  option_args words;
  std::vector<std::string> options{}; ///< of these, the ones whose paths are taken from that folder: "--data"
};

std::vector<std::string> plugins_named(std::string_view option, const std::string& value) {
  if (option == "--policy") return plugins_of_policy(value);
  if (option == "--cure") return plugins_of_cure(value);
  if (option != "--optimizer" && option != "--outer-optimizer") return {};
  const std::string_view name = name_of_choice(value);
  return names_a_plugin(name) ? std::vector{std::string(name)} : std::vector<std::string>();
}

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
  for (const std::string& file : plugins_named(option, value)) {
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

std::string folder_of_args(const checkpoint& from) {
  std::string folder; // older ones do not tell it
  if (from.has(folder_of_args_part)) from.part(folder_of_args_part)->field("folder", folder);
  return folder;
}

/// A relative path that leads to something here stays as it was typed. Any other is taken from the folder in
/// which it was typed. What is no path, such as the name of a built-in model, stays. An empty folder is that
/// of this command.
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

/// The options that are kept in a checkpoint, with their paths as they lead to something from here.
args_from_there found_from(const checkpoint& from, std::vector<std::string> words) {
  return found_from(option_args(with_present_names(std::move(words))), folder_of_args(from));
}

args_from_there words_in(const checkpoint& from) { return found_from(from, card_of(from).words); }

train_args values_of(const option_args& words, const checkpoint& from) {
  CLI::App parser;
  train_args values;
  option_table table(parser);
  add_options(table, values);
  add_processes(table, values.remote);
  add_batches_sent(table, values.remote);
  add_wire(table, values.remote);
  add_server(table, values.remote);
  parse<std::invalid_argument>(parser, words.all(), "checkpoint '" + from.path().string() + "'");
  return values;
}

std::vector<std::string> plugins_of_run(const checkpoint& from, const option_args& given) {
  std::vector<std::string> words = words_in(from).words.take();
  std::ranges::move(
      found_from(from, {"--policy=" + policies_from(from)}).words.take(), // it may have switched
      std::back_inserter(words));
  std::erase_if(words, [&](const std::string& word) { return given.has(option_args::option_of(word)); });
  return plugins_in(words);
}

/// At least 1: a checkpoint may come from anybody, and its card may say 0.
std::uint32_t workers_of(const checkpoint& from) { return std::max(1U, card_of(from).workers); }

std::string on_cores(std::uint32_t workers, std::uint32_t each) {
  std::string word;
  for (std::uint32_t d = 0; d < each * workers; ++d)
    word += fmt::format("{}cpu:{}", d == 0 ? "--devices=" : ",", d % each);
  return word;
}

/// The devices of the processes that the tool starts, a list for each worker, if there is a GPU among them.
/// In one process they round the same.
std::string on_those_of_processes(const train_args& w) {
  const std::vector<std::string> lists = local_workers_of(w).devices;
  std::string word;
  for (std::uint32_t worker = 0; worker < w.remote.processes; ++worker)
    word += (worker == 0 ? "--devices=" : ",") + lists[worker % lists.size()];
  return word;
}

option_args within_one_process(option_args words, const train_args& w) {
  words.drop_if([](std::string_view option) { return is_of(option, of_processes); });
  if (!w.remote.any()) return words;
  const std::uint32_t each = devices_elsewhere(w);
  words.drop("--workers");
  const bool has_gpus = w.remote.processes > 0 && names_gpu(w.devices);
  words.set(has_gpus ? on_those_of_processes(w) : on_cores(workers_elsewhere(w), each));
  if (each > 1) words.set(fmt::format("--workers={}", workers_elsewhere(w)));
  return words;
}

/// The options of its server, which a run leaves behind when it comes into another program.
std::vector<std::string> args_of_server(option_args words) {
  words.drop_if([](std::string_view option) { return option != "--wire" && !is_of(option, of_server); });
  return words.take();
}

/// The same of a server that it had left before.
std::vector<std::string> args_of_server_in(const checkpoint& from) {
  std::vector<std::string> words;
  if (from.has(args_of_server_part)) from.part(args_of_server_part)->field("words", words);
  return found_from(from, std::move(words)).words.take();
}

/// What goes on by another command, or with workers in other processes than before.
struct going_on {
  const checkpoint& from;
  const option_args& given; ///< now
  const train_args& now;    ///< their values
  train_args was;           ///< the values of the checkpoint
};

std::uint32_t devices_of_each(const going_on& run) {
  if (run.was.remote.serve) return run.was.remote.devices;
  return run.was.span.any() ? std::max(1U, device_count(run.was.devices) / workers_of(run.from)) : 1;
}

/// The workers of another command become those that join, as they did before if the run comes back.
option_args for_server(option_args words, const going_on& run) {
  const std::uint32_t workers = workers_of(run.from);
  const std::uint32_t each = devices_of_each(run);
  words.drop_unless(run.given, {"--processes", "--devices", "--send-batches", "--workers"});
  words.drop_if([&](std::string_view o) { return is_of(o, of_one_process) && !run.given.has(o); });
  for (const std::string& word : args_of_server_in(run.from))
    if (!words.has(option_args::option_of(word))) words.set(word);
  if (!words.has("--workers")) words.set(fmt::format("--workers={}", workers));
  if (each > 1 && !words.has("--devices-per-worker")) words.set(fmt::format("--devices-per-worker={}", each));
  if (!words.has("--listen")) words.set("--listen=" + run.now.remote.listen);
  return words;
}

/// Of one process, without what names its workers.
option_args without_workers(option_args words, const going_on& run) {
  words = within_one_process(std::move(words), run.was);
  words.drop_if([](std::string_view o) { return o == "--workers" || is_of(o, of_one_process); });
  return words;
}

/// The workers of a server, or of this process, become processes that it starts.
option_args for_processes(option_args words, const going_on& run) {
  words = without_workers(std::move(words), run);
  if (run.was.remote.serve) words.set(on_cores(run.now.remote.processes, devices_of_each(run)));
  words.set(run.given);
  return words;
}

/// The workers go on in this program: in its process, or in others that it starts.
option_args for_one_program(option_args words, const going_on& run) {
  const bool started_before = run.was.remote.processes > 0;
  const bool starts =
      run.given.has("--processes") ? run.now.remote.processes > 0 : started_before && !run.was.remote.serve;
  if (starts) return started_before ? words : for_processes(std::move(words), run);
  if (run.was.remote.any()) words = within_one_process(std::move(words), run.was);
  words.set(run.given);
  words.drop("--processes");
  words.drop_unless(run.given, {"--wire", "--send-batches"});
  return words;
}

/// The same for the ranks of a launcher, which say by themselves what they are.
option_args for_ranks(option_args words, const going_on& run) {
  words = without_workers(std::move(words), run);
  words.set(run.given);
  return words;
}

} // namespace

std::vector<std::string> plugins_in(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    const std::string_view option = option_args::option_of(word);
    if (option.size() == word.size()) continue;
    for (std::string& file : plugins_named(option, word.substr(option.size() + 1)))
      if (std::ranges::find(all, file) == all.end()) all.push_back(std::move(file));
  }
  return all;
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

std::vector<std::string> args_of_run(const CLI::App& parser, const train_args& w) {
  const bool keeps = !w.checkpoints.folder.empty() || !w.checkpoints.resume.empty();
  option_args words(given_args(parser));
  words.drop_if([keeps](std::string_view option) {
    return is_of(option, of_display | of_resuming) ||
           (!keeps && (is_output_option(option) || is_of(option, of_pace)));
  });
  if (w.usual_rule) words.set("--optimizer=" + w.optimizer);
  if (w.usual_devices) words.set("--devices=" + w.devices);
  if (w.usual_policy) words.set("--policy=" + w.run.policy);
  if (w.remote.launch) return within_one_process(std::move(words), w).take();
  if (w.remote.serve && w.checkpoints.resume.empty() && !words.has("--listen"))
    words.set("--listen=" + w.remote.listen);
  return words.take();
}

void require_named_plugins(const checkpoint& from, const option_args& given,
                           const std::vector<std::string>& named) {
  std::string files, options;
  for (const std::string& file : plugins_of_run(from, given)) {
    std::error_code unknown;
    const auto is_it = [&](const std::string& n) { return std::filesystem::equivalent(n, file, unknown); };
    if (std::ranges::any_of(named, is_it)) continue;
    files += fmt::format("{}'{}'", files.empty() ? "" : ", ", printable(file));
    options += " --plugin " + shell_word(file);
  }
  if (files.empty()) return;
  reject("checkpoint '{}' names plug-ins, which are code: {}; if you trust them, give{}",
         from.path().string(), files, options);
}

std::vector<std::string> outputs_of_replay(const checkpoint& from, const option_args& given) {
  option_args words = words_in(from).words;
  words.drop_if(
      [&](std::string_view o) { return given.has(o) || o == "--sample-gap" || !is_of(o, of_looks); });
  return words.take();
}

std::vector<std::string> in_one_process(std::vector<std::string> words, const train_args& w) {
  return within_one_process(option_args(std::move(words)), w).take();
}

resumed_args resumed_from(const checkpoint& from, const std::vector<std::string>& told, const train_args& w) {
  const option_args given(told);
  require_named_plugins(from, given, w.checkpoints.plugins);
  const option_args before = args_to_resume(from, {}, w.checkpoints);
  going_on run{from, given, w, values_of(before, from)};
  run.was.remote.serve = before.has("--listen"); // stands there in any case
  option_args words = args_to_resume(from, given, w.checkpoints);
  const bool serves = w.remote.serve && !w.remote.launch;
  if (w.remote.launch)
    words = for_ranks(std::move(words), run);
  else if (!serves)
    words = for_one_program(std::move(words), run);
  else if (!run.was.remote.serve)
    words = for_server(std::move(words), run);
  resumed_args all{values_of(words, from), words.all(), {}};
  if (!serves) all.args_of_server = run.was.remote.serve ? args_of_server(before) : args_of_server_in(from);
  all.values.load.clear(); // that run has begun with these
  all.values.quiet = w.quiet;
  all.values.live = w.live;
  all.values.remote.serve = serves;
  if (!w.remote.launch) return all;
  all.values.remote = w.remote;
  all.values.workers = w.workers;
  all.values.devices = w.devices;
  return all;
}

} // namespace mailgrad
