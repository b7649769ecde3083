#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/program.hpp>

#include <iostream>

namespace mailgrad {

namespace {

struct replay_args {
  std::string recording;
  train_args asked; ///< where it is, and what is to be seen of it; all else is recorded

  replay_args() { asked.data = asked.devices = asked.parameters = ""; }
};

option_args looks_in(const CLI::App& parser) {
  option_args looks(given_args(parser));
  looks.drop_if([](std::string_view option) { return !is_of(option, of_looks); });
  return looks;
}

void require_as_many(std::size_t devices, const std::vector<std::string>& words) {
  constexpr std::string_view option = "--devices=";
  const auto word = std::ranges::find_if(words, [&](const std::string& w) { return w.starts_with(option); });
  const std::size_t recorded =
      word == words.end() ? 1 : static_cast<std::size_t>(std::ranges::count(*word, ',')) + 1;
  if (devices != recorded) reject("--devices: the recording has {}, these are {}", recorded, devices);
}

option_args args_of_devices(const train_args& w) {
  option_args words;
  if (!w.devices.empty()) words.set("--devices=" + w.devices);
  if (!w.parameters.empty()) words.set("--parameters=" + w.parameters);
  return words;
}

std::vector<std::string> args_for_train(const train_args& w, const option_args& looks, const recording& r) {
  option_args words(with_present_names(r.header.words));
  words.drop_if([](std::string_view option) { // a recording says what to compute, not which files to write
    constexpr unsigned of_no_replay = of_display | of_resuming | of_checkpoints | of_pace | of_choice;
    return is_output_option(option) || is_of(option, of_no_replay);
  });
  if (!w.data.empty()) words.set("--data=" + w.data);
  if (!w.devices.empty()) require_as_many(read_devices(w.devices).size(), words.all());
  words.set(args_of_devices(w));
  words.set(looks);
  if (!w.checkpoints.folder.empty()) {
    words.set("--checkpoint=" + w.checkpoints.folder);
    words.set("--checkpoint-every=" + w.checkpoints.every);
    words.set("--keep=" + std::to_string(w.checkpoints.keep));
  }
  words.set(option_args(words_of(w.live)));
  if (w.quiet) words.set("--quiet");
  return words.take();
}

bool writes_to_standard_output(const output_paths& o) {
  return std::ranges::any_of(std::array{&o.report, &o.staleness_csv, &o.trace},
                             [](const std::string* path) { return *path == output_file::standard_output; });
}

int compare(const recording& r, const training_report& again, std::ostream& out) {
  const std::string& recorded = r.end.parameters_sha256;
  if (again.parameters_sha256 == recorded) {
    out << "replay        the same parameters as recorded\n";
    return exit_code::done;
  }
  out << "replay        other parameters than recorded\n";
  say_failure("the replay of '" + r.name + "' differs: the parameters recorded have sha256 " + recorded +
              ", these " + again.parameters_sha256);
  return exit_code::differs;
}

int replay_with(const std::string& file, const train_args& w, const option_args& looks) {
  const auto what = std::make_shared<const recording>(read_recording(file));
  require_repeatable(*what);
  require_asked_places(
      recorded_values(*what), args_of_devices(w), "recording '" + what->name + "'",
      [](const std::string& options) { return "it repeats on such GPUs alone; name such by " + options; });
  const auto [again, code] = train_again(args_for_train(w, looks, *what), what, w.checkpoints);
  if (again.ended == "stopped" || again.ended == "failed") {
    // Code 0 would say that the parameters are the same.
    if (code != exit_code::done) return code;
    say_failure("the replay was stopped before its end, so nothing was compared");
    return exit_code::failed;
  }
  std::ostream& out = writes_to_standard_output(w.outputs) ? std::cerr : std::cout;
  if (!what->killed) return compare(*what, again, out);
  if (code != exit_code::failed || again.ended != "completed")
    return code; // perhaps of a signal during the test
  out << "replay        as far as the recording goes; it was not completed, so it has no parameters to "
         "compare with\n";
  return exit_code::cut_short;
}

} // namespace

command make_replay_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("replay", "Repeat a recorded run, and compare its parameters");
  auto words = std::make_shared<replay_args>();
  train_args& w = words->asked;
  option_table t(*parser);
  t.add("recording", words->recording, required,
        "The file that 'mailgrad train --record' wrote. If its run was killed, or the disk was full, it is "
        "FILE.partial or FILE.killed");
  t.add("--data", w.data, "Where the same data set lies now, if it has moved");
  t.add("--devices", w.devices,
        "Devices to use instead of the recorded ones, such as cpu:0,cpu:1, or streams of a GPU, "
        "cuda:0,cuda:0/1; there must be as many, cores for cores and GPUs of the same name for GPUs");
  t.add("--parameters", w.parameters,
        "Where the weights lie and are updated, instead of the recorded places: host, a GPU such as cuda:0, "
        "or several places for the shards in turn; the host for the host and GPUs of the same name for GPUs");
  t.add("--report", w.outputs.report, path("FILE"),
        "Write a report of the run to this file, as one JSON object; -: to standard output");
  add_observing(t, w);
  parser->get_option("--sample-gap")->default_str("as recorded");
  add_metrics(t, w);
  add_checkpoints(t, w.checkpoints);
  add_live(t, w.live);
  t.add("--quiet", w.quiet, "Show no progress, only the summary");
  parser->footer(
      "Every shard takes the gradients in the order of the recording, and every worker gets the same\n"
      "batches. So the run ends with the same parameters, bit for bit. A recording is refused if it was\n"
      "made with other data, by another version or with other processor instructions, if workers or\n"
      "weights were on cores and are on GPUs, on GPUs and are on cores, or on other GPUs, if another\n"
      "version of cuBLAS multiplies, or if its run failed. Workers that were lost, came late or came back do "
      "so again, all in one process.\n"
      "\nA replay is a closer look at a run: its gaps, sampled gaps, losses and order are those of the run,\n"
      "also if the run did not look. Its times are its own, since it waits for each recorded turn.\n"
      "\nA run that was killed, or whose disk was full, leaves FILE.partial behind. A replay repeats the "
      "part\n"
      "that is whole, ends as if the run had been stopped there, and says after how many steps. There are\n"
      "no parameters to compare with. The next run that records into FILE renames FILE.partial to "
      "FILE.killed, unless\n"
      "that file exists.\n"
      "\nExit codes: 0 the parameters are the same, 3 they differ, 4 a recording that was not\n"
      "completed is repeated as far as it goes, 1 the run failed or was stopped on the live page, 2 wrong "
      "options or a\n"
      "recording that cannot be used, 130, 143 and 129 ended by Ctrl-C, SIGTERM and SIGHUP.\n"
      "\nExample:\n"
      "  mailgrad train --devices cpu:0,cpu:1 --policy ssp:2 --record run.rec\n"
      "  mailgrad replay run.rec\n"
      "  mailgrad replay run.rec --sample-gap 10 --trace run.trace.json --metrics run.jsonl");
  return {parser, [parser, words] { return replay_with(words->recording, words->asked, looks_in(*parser)); }};
}

} // namespace mailgrad
