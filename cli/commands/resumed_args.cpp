#include <mailgrad/cli/commands/resumed_args.hpp>

#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/options/spelling.hpp>

#include <iterator>
#include <system_error>

namespace mailgrad {

namespace {

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

/// The plug-ins of options that are not given anew.
std::vector<std::string> plugins_of_run(const checkpoint& from, const option_args& given) {
  std::vector<std::string> words = words_in(from).words.take();
  std::ranges::move(
      found_from(from, {"--policy=" + policies_from(from)}).words.take(), // it may have switched
      std::back_inserter(words));
  std::erase_if(words, [&](const std::string& word) { return given.has(option_args::option_of(word)); });
  return plugins_in(words);
}

/// A card of 0 may come from whoever wrote the file.
std::uint32_t workers_of(const checkpoint& from) { return std::max(1U, card_of(from).workers); }

/// The cores for so many workers, each with so many devices, over which its model spans.
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
