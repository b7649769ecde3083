#include <mailgrad/cli/commands/resumed_args.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/live/live_run.hpp>
#include <mailgrad/cli/output/format_report.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/cli/remote/served_run.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/error.hpp>

#include <unistd.h>

#include <iostream>
#include <iterator>
#include <new>
#include <system_error>

namespace mailgrad {

namespace {

struct foreseen_run {
  std::shared_ptr<const parameter_layout> layout;
  bool is_done = false; ///< it is resumed, and no step is left to train
};

enum class without_recording : std::uint8_t { fails, goes_on };

struct begun_run {
  std::unique_ptr<training> run;
  std::string without{}; ///< why it has no recording, if it goes on without one
};

/// The summary has said when a recording ended before the run did, and where its beginning lies.
std::string recording_failure(const training& run, const training_report& r) {
  std::string why = run.recording_failure();
  const bool told = r.recording && r.recording->failure != why && !r.recording->failure.empty();
  if (why.empty() || !told) return why;
  return fmt::format("recording '{}' is not whole: {}", r.recording->file, r.recording->failure);
}

/// The report of a run that has ended. Says that the weights are tested on so many samples when that begins,
/// since a run that has diverged or lost a shard has none to test; 0: says nothing.
training_report tested_report(training& run, std::size_t samples, const std::function<bool()>& ends_test) {
  return run.report([&ends_test, unreported = samples]() mutable {
    if (ends_test()) return true;
    if (const std::size_t n = std::exchange(unreported, 0); n > 0)
      std::cerr << "testing on " << n << " samples\n";
    return false;
  });
}

/// Prints the summary of a run, and why it ended if it was not completed. `command` is the one by which it
/// goes on from a checkpoint; `signal` is the one that ended the training or the test, or 0; `needs` of it
/// decide what to do about a lack of memory. Returns the exit code.
int say_how_it_ended(const training_report& r, const run_outputs& outputs, const std::string& command,
                     int signal, const memory_needs& needs) {
  outputs.print_summary(printable(in_words(r, command)));
  const int code = exit_code_of(r, signal);
  if (!r.why.empty())
    code == exit_code::failed || code == exit_code::diverged ? say_failure(r.why)
                                                             : say_line("ended: " + r.why);
  if (const auto advice = memory_advice(r.why, needs); !advice.empty()) say_line(advice);
  return code;
}

/// Writes what the run leaves behind, and names everything of it that is missing.
///
/// Errors  std::runtime_error with the last failure, when those before it have been printed; of a run that
///         has diverged that one is printed as well, since its exit code says more.
void keep_results(const run_outputs& outputs, training& run, const training_report& report,
                  const model_card& card) {
  const run_trace trace = run.trace();
  for (const std::string& line : missing_in(trace)) say_line("trace: " + line);
  std::vector<std::string> failures = outputs.write(report, trace, run.weights(), card);
  for (const std::string& why : {recording_failure(run, report), run.metrics_failure()})
    if (!why.empty()) failures.push_back(why);
  if (failures.empty()) return;
  const std::string last = failures.back();
  if (report.ended != "diverged") failures.pop_back();
  for (const std::string& why : failures) say_failure(why);
  if (report.ended != "diverged") throw std::runtime_error(last);
}

foreseen_run foresee(const model_function& model, const std::shared_ptr<const data_split>& data,
                     const training_options& options) {
  const run_plan plan = plan_run(model, data, options);
  const checkpoint* const from = options.resume.get();
  return {plan.layout, from && steps_done(*from) >= plan.steps};
}

/// Makes a run, perhaps without its recording, which is then taken out of the options. No actor of it lives
/// before its recording has begun. A run that workers have joined (`has_listened`) is not made once more.
///
/// Errors  those of `make`; recording_error if the run fails without its recording, or for what its workers
///         compute on.
begun_run begun(training_options& options, without_recording then,
                const std::function<std::unique_ptr<training>()>& make, const bool& has_listened) {
  std::string without;
  try {
    return {make()};
  } catch (const recording_error& e) {
    if (!options.resume || options.record.empty()) throw;
    if (has_listened)
      throw recording_error(std::string(e.what()) + "; let workers join that compute on what is recorded");
    if (then == without_recording::fails)
      throw recording_error(std::string(e.what()) + "; leave --record out");
    without = std::string("this run goes on without a recording: ") + e.what();
  }
  options.record.clear();
  return {make(), std::move(without)};
}

/// Waits a moment, or until somebody has come or gone. Returns whether the run has ended.
bool wait_a_moment(training& run, const served_run* served) {
  constexpr std::chrono::milliseconds moment{200}, part{20};
  if (!served) return run.wait_for(moment);
  for (auto waited = part; waited < moment && !served->has_news(); waited += part)
    if (run.wait_for(part)) return true;
  return false;
}

/// Shows the progress of a run until it ends, and prints what it waits for when it stalls. Returns whether a
/// signal stopped it; a signal that arrives after the last check ends the test instead.
bool watch_run(training& run, progress_display& display, const interrupt& ctrl_c, served_run* served) {
  constexpr instant stall = std::chrono::seconds{10};
  const machine_time time;
  bool stopping = false;
  std::uint64_t failed_checkpoints = 0;
  bool records = true, has_room = true;
  std::uint64_t last_steps = 0;
  instant last_move = time.now();
  const auto say = [&](const std::string& line) {
    display.finish();
    say_line(line);
  };
  const auto tell_of_files = [&](const char* what_of_it) {
    const checkpoint_account kept = run.checkpoints();
    if (has_room && kept.removed_for_room > 0) {
      has_room = false;
      say("the disk is full: older checkpoints are removed to make room for newer ones");
    }
    if (kept.failed > failed_checkpoints) {
      failed_checkpoints = kept.failed;
      say(fmt::format("checkpoint failed{}: {}", what_of_it, kept.failure));
    }
    const auto recorded = run.recorded();
    if (!records || !recorded || recorded->failure.empty()) return;
    records = false;
    say(format_recording(*recorded) + what_of_it);
  };
  while (!wait_a_moment(run, served)) {
    const training_progress p = run.progress();
    display.show(p);
    if (served && served->has_news()) {
      display.finish();
      served->tell_news();
    }
    if (served) served->look_after_workers();
    tell_of_files(", training goes on");
    if (ctrl_c.requested() && !stopping) {
      stopping = true;
      const std::string name = signal_name(ctrl_c.signal());
      say(fmt::format(
          "stopping by {}: steps that have begun are finished; a second signal ends at once, without a "
          "report",
          name));
      run.stop("stopped by " + name);
    }
    if (p.steps != last_steps) {
      last_steps = p.steps;
      last_move = time.now();
    }
    if (time.now() - last_move < stall) continue;
    last_move = time.now();
    display.finish();
    for (const std::string& wait : run.list_wait_reasons(std::chrono::milliseconds{500})) say_line(wait);
  }
  display.show(run.progress());
  display.finish();
  tell_of_files("");
  return stopping;
}

/// "cpu:0, cpu:1", or with workers that span devices "cpu:0 + cpu:1, cpu:2 + cpu:3".
std::string format_devices(const training_options& o) {
  const std::size_t each = o.devices.size() / std::max<std::size_t>(1, o.workers);
  std::string text;
  for (std::size_t d = 0; d < o.devices.size(); ++d)
    text.append(d == 0 ? "" : d % each == 0 ? ", " : " + ").append(to_string(o.devices[d]));
  return text;
}

/// Describes the run that begins, in two lines: data, model, policy, devices and the shards of the weights.
/// `where` takes the place of the devices if workers have brought their own.
std::string introduction(const train_args& w, const training_options& o, const data_split& data,
                         const training& run, const std::string& where) {
  const std::string held_out =
      data.validation.size() > 0 ? fmt::format(", {} held out", data.validation.size()) : "";
  std::string model = w.model; // "mlp, a pipeline of 8 micro-batches"
  if (w.span.any()) model += w.span.pipeline ? ", a pipeline" : ", replicated";
  if (w.span.any() && o.micro_batches > 1) model += fmt::format(" of {} micro-batches", o.micro_batches);
  return fmt::format(
      "{}: {} samples to train on{}, {} to test on, {}\n{}; {} on {}; {}", data.name, data.train.size(),
      held_out, data.test.size(),
      data.train.has_targets() ? "a number to predict" : fmt::format("{} classes", data.train.classes()),
      model, o.policy, where.empty() ? format_devices(o) : where, run.layout().format_balance());
}

/// All steps of a run that is resumed are done. It is then tested and writes what it leaves behind.
void say_that_nothing_is_left(std::uint64_t done, std::uint64_t total) {
  say_line(fmt::format(
      "nothing is left to train: {} steps are done, and {}; its checkpoints stay as they are", done,
      done > total ? fmt::format("only {} are asked for", total) : "no more are asked for"));
}

/// Of these files, those that are asked for `now`, and those that are not there.
output_paths still_to_write(output_paths all, const output_paths& now) {
  for (const auto file : {&output_paths::report, &output_paths::staleness_csv, &output_paths::trace,
                          &output_paths::save, &output_paths::metrics, &output_paths::tensorboard}) {
    std::error_code unknown;
    if ((now.*file).empty() && std::filesystem::exists(all.*file, unknown)) (all.*file).clear();
  }
  return all;
}

/// Whether what is chosen in the run depends on the samples that it is tested on at its end.
bool judged_by_test(const training_options& o, const data_split& data) {
  const bool by_tests =
      o.patience > 0 || o.keep == kept_weights::best || (!o.stop_when.empty() && !o.evaluate_every.never());
  return by_tests && !o.replay && data.validation.size() == 0;
}

void add_what_the_tool_knows(training_report& r, const train_args& w, const std::string& date, int signal) {
  r.span = w.span.name();
  r.origin.commit = build_commit;
  r.origin.date = date;
  if (r.ended == "completed" && r.why.ends_with("the test was ended early") && signal != 0)
    r.why += " by " + signal_name(signal);
}

struct resumption {
  chosen_checkpoint chosen{}; ///< without one it begins
  without_recording then = without_recording::fails;
  output_paths asked{}; ///< for files that this command names, and not that of the checkpoint
  std::vector<std::string> args_of_server{}; ///< that the run has left
};

/// `given` are the options that a recording keeps.
training_options options_of(const train_args& w, std::vector<std::string> given,
                            std::shared_ptr<const recording> replay, const resumption& at) {
  training_options options = understood(w);
  options.record = w.outputs.record;
  options.words = in_one_process(given, w);
  options.args_to_resume = std::move(given);
  options.args_of_server = at.args_of_server;
  std::error_code unknown;
  options.folder_of_args = std::filesystem::current_path(unknown).string();
  options.replay = std::move(replay);
  options.resume = at.chosen.from;
  options.resume_newest = at.chosen.newest;
  return options;
}

void say_warnings(const training_options& options, const data_split& data) {
  for (const std::string& remark : data.remarks) say_warning(remark);
  if (judged_by_test(options, data))
    say_warning("the test samples decide when the run ends or which weights are kept, so the test figures "
                "are too good; --validation 0.1 holds other samples out for that");
}

/// The options by which a replay finds its data, devices and weights elsewhere than its recording says.
std::string other_places(const std::vector<std::string>& words, const recording& replayed) {
  const std::vector<std::string>& recorded = replayed.header.words;
  std::string options;
  for (const std::string& word : words)
    if (is_of(option_args::option_of(word), of_places) && std::ranges::find(recorded, word) == recorded.end())
      options += ' ' + shell_word(word);
  return options;
}

/// "mpirun -n 4 mailgrad launch --keys=run-keys"
std::string launched_again(const launched& l) {
  std::string command = fmt::format("{} -n {} mailgrad launch", l.place.launcher, l.place.size);
  for (const std::string& word : l.again) command += ' ' + shell_word(word);
  return command;
}

/// The command that takes `--resume` of a run with these words, whose plug-ins it names.
std::string command_to_go_on(const train_args& w, const std::vector<std::string>& words,
                             const recording* replayed) {
  if (replayed) return "mailgrad replay " + shell_word(replayed->name) + other_places(words, *replayed);
  std::string command = w.remote.launch  ? launched_again(*w.remote.launch)
                        : w.remote.serve ? "mailgrad serve"
                                         : "mailgrad train";
  for (const std::string& file : plugins_in(words)) command += " --plugin " + shell_word(file);
  return command;
}

/// A GPU that was chosen, since nobody named a device, does not train what is asked for.
class gpu_declined : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Errors  gpu_declined, or as foresee().
foreseen_run foresee_as_chosen(const train_args& w, const model_function& model,
                               const std::shared_ptr<const data_split>& data,
                               const training_options& options) {
  require_kind_of_samples(w.model, data->name, request_for(*data, 1));
  if (!w.usual_devices || !names_gpu(w.devices)) return foresee(model, data, options);
  try {
    return foresee(model, data, options);
  } catch (const std::logic_error& why) { // refused, and nothing has begun
    throw gpu_declined(why.what());
  }
}

/// `given` are the options that a recording keeps.
finished_run run_with(const train_args& w, std::vector<std::string> given,
                      std::shared_ptr<const recording> replay, const resumption& at) {
  const checkpoint* const from = at.chosen.from.get();
  const std::string date = utc_date(std::chrono::system_clock::now());
  const run_inputs inputs = inputs_of(w, replay.get());
  announce_plugins(inputs);
  training_options options = options_of(w, std::move(given), std::move(replay), at);
  const std::optional<live_options> live = understood(w.live);
  std::optional<http_server> listening;
  if (live) listening = listen(*live);
  const model_function model = spanning(find_model(w.model), w.span);
  std::optional<run_outputs> outputs(std::in_place, w.outputs, files_of(inputs));
  if (!w.load.empty()) options.start = std::make_shared<const saved_weights>(load_weights(w.load));
  const auto data = std::make_shared<const data_split>(open_data(w.data, opened_as(w)));
  fit_usual_batch(w, options, data->train.size());
  const model_card card = card_for(model_text(w.model), *data); // now, as a model file may change meanwhile

  const auto [layout, is_done] = foresee_as_chosen(w, model, data, options);
  if (is_done) {
    const output_paths left = still_to_write(w.outputs, at.asked);
    outputs.emplace(left, files_of(inputs));
    options.metrics = left.metrics;
    options.tensorboard = left.tensorboard;
  }
  outputs->require_room(*layout, card);
  if (!is_done && from && lies_in(options.checkpoints.folder, from->path()))
    options.checkpoints.lock = take_checkpoint_folder(options);
  // A run that is refused has said nothing else. One that waits for workers is refused before it listens.
  bool said = !from;
  const auto say_where_from = [&] {
    if (!std::exchange(said, true)) say_line(at.chosen.in_words);
  };

  const interrupt ctrl_c; // lives to the end, so that the first signal never costs the report
  const bool needs_workers = !is_done || w.remote.launch; // ranks of a launcher wait for their server
  std::optional<served_run> served;
  if (w.remote.any() && needs_workers)
    served.emplace(w.remote, local_workers_of(w), w.quiet, ctrl_c,
                   [&](training_report& r) { add_what_the_tool_knows(r, w, date, 0); });
  bool listens = false;
  const auto make = [&] {
    if (!served) return std::make_unique<training>(model, data, options);
    remote::serve_options serve = served->options(options.workers, devices_elsewhere(w));
    serve.on_listening = [&, listen_to = serve.on_listening](const std::string& address) {
      listens = true;
      say_where_from();
      listen_to(address);
    };
    return std::make_unique<training>(model, data, options, std::move(serve));
  };
  const begun_run made = begun(options, at.then, make, listens);
  say_where_from();
  if (!made.without.empty()) say_failure(made.without);
  training& run = *made.run;
  if (served) served->begin(run);
  for (const std::string& remark : run.remarks()) say_line(remark);
  if (is_done && !w.quiet) say_that_nothing_is_left(steps_done(*from), run.total_steps());
  if (from) options.policy = policies_from(*from);
  const std::string where =
      served ? fmt::format(
                   "{} worker{} of other processes{}", options.workers, options.workers == 1 ? "" : "s",
                   devices_elsewhere(w) == 1 ? "" : fmt::format(", each on {} devices", devices_elsewhere(w)))
             : "";
  if (!w.quiet) say_line(in_words(*data->reading));
  say_warnings(options, *data);
  if (!w.quiet) {
    say_line(introduction(w, options, *data, run, where));
    say_line(format_choices(w, options));
  }
  if (options.start && w.load_strict == "no")
    std::cerr << printable(format_loaded(*options.start, run.layout()));
  std::optional<live_run> page;
  if (live)
    page.emplace(run, w.model, !is_done && !options.checkpoints.folder.empty(), *live, std::move(*listening),
                 [&](training_report& r) { add_what_the_tool_knows(r, w, date, 0); });
  if (page) std::cerr << "live page: " << page->url() << "; Ctrl-C ends run and page\n";
  progress_display display(is_done || w.quiet, run.total_steps());
  const bool stopped = watch_run(run, display, ctrl_c,
                                 served ? &*served : nullptr); // if it stopped, the weights so far are tested
  training_report report = tested_report(run, w.quiet ? 0 : data->test.size(), [&] {
    return ctrl_c.requested() && (!stopped || (served && !served->has_time_to_test()));
  });
  if (served) served->end();
  const int signal = ctrl_c.signal();
  add_what_the_tool_knows(report, w, date, signal);
  if (page) page->end(report);
  const int code =
      say_how_it_ended(report, *outputs, command_to_go_on(w, report.command, options.replay.get()), signal,
                       memory_needs_of(w, options.replay != nullptr));
  keep_results(*outputs, run, report, card);
  return {std::move(report), code};
}

/// As run_with(), but names the model, devices and batch when memory runs out, and says what to do.
finished_run train_with(const train_args& w, std::vector<std::string> given,
                        std::shared_ptr<const recording> replay, const resumption& at = {}) {
  const bool is_replay = replay != nullptr;
  try {
    return run_with(w, std::move(given), std::move(replay), at);
  } catch (const out_of_memory& e) { // of a GPU
    throw std::runtime_error(fmt::format("model '{}' on '{}' with --batch {}: {}; {}", w.model, w.devices,
                                         w.run.batch, e.what(),
                                         memory_advice(e.what(), memory_needs_of(w, is_replay))));
  } catch (const std::bad_alloc& e) {
    const std::string why = e.what(); // a block says how much it asked for
    throw std::runtime_error(
        fmt::format("model '{}' on '{}' with --batch {}: {}; take a smaller model or batch, or fewer devices",
                    w.model, w.devices, w.run.batch, why == "std::bad_alloc" ? "out of memory" : why));
  }
}

train_args words_again(const std::vector<std::string>& recorded, const std::string& whose) {
  CLI::App parser;
  train_args again;
  option_table table(parser);
  add_options(table, again);
  parse<recording_error>(parser, with_present_names(recorded), whose);
  return again;
}

/// Opens the data and plans the run, says what was understood, and leaves it at that.
int try_out(const train_args& w) {
  training_options options = with_first_weights(w);
  const auto data = std::make_shared<const data_split>(open_data(w.data, opened_as(w)));
  fit_usual_batch(w, options, data->train.size());
  if (!w.quiet) say_line(in_words(*data->reading));
  say_warnings(options, *data);
  if (!w.quiet) say_line(format_choices(w, options));
  const foreseen_run run = foresee_as_chosen(w, spanning(find_model(w.model), w.span), data, options);
  if (!w.quiet)
    say_line(fmt::format("{} with {} weights fits these data and options, under {}; nothing was trained",
                         w.model, run.layout->size(), options.policy));
  return exit_code::done;
}

/// Goes on with the options of the checkpoint and those given now. It fails without its recording only if
/// that was asked for now.
int resume(const train_args& w, const std::vector<std::string>& given) {
  if (!w.load.empty()) reject("--resume goes on with the weights of the checkpoint; leave --load out");
  chosen_checkpoint at = checkpoint_to_resume(w.checkpoints);
  const resumed_args again = resumed_from(*at.from, given, w);
  require_asked_places(again.values, option_args(given),
                       fmt::format("checkpoint '{}'", at.from->path().string()),
                       [&](const std::string&) { return remedy_with_cores(again.values); });
  at.in_words += format_paths(*at.from, option_args(given), w.checkpoints) +
                 format_left_out(*at.from, option_args(given), w.checkpoints);
  const auto then =
      option_args(given).has("--record") ? without_recording::fails : without_recording::goes_on;
  return train_with(again.values, again.words, nullptr,
                    {std::move(at), then, w.outputs, again.args_of_server})
      .code;
}

} // namespace

int exit_code_of(const training_report& r, int signal) {
  if (r.ended == "diverged") return exit_code::diverged;
  if (r.ended == "completed" && r.why.empty()) return exit_code::done;
  if (r.ended == "stopped" && (r.enough || signal == 0)) return exit_code::done;
  const bool ended_early = r.ended == "completed" || r.ended == "stopped";
  return ended_early && signal != 0 ? exit_code::of_signal(signal) : exit_code::failed;
}

train_args recorded_values(const recording& what) {
  train_args w = words_again(what.header.words, "recording '" + what.name + "'");
  w.remote.slots = what.header.slots; // an option of the server, which a replay has not
  return w;
}

finished_run train_again(std::vector<std::string> words, std::shared_ptr<const recording> what,
                         const checkpoint_args& w) {
  chosen_checkpoint at = checkpoint_to_resume(w);
  const option_args given(words);
  if (at.from) {
    std::vector<std::string> trusted = plugins_in(what->header.words);
    trusted.insert(trusted.end(), w.plugins.begin(), w.plugins.end());
    require_named_plugins(*at.from, {}, trusted);
    if (w.folder.empty()) std::ranges::move(args_of_keeping(*at.from), std::back_inserter(words));
    if (w.same_outputs) std::ranges::move(outputs_of_replay(*at.from, given), std::back_inserter(words));
    at.in_words += format_left_out(*at.from, given, w);
  }
  train_args again = words_again(words, "recording '" + what->name + "'");
  again.remote.slots = what->header.slots;
  return train_with(again, std::move(words), std::move(what),
                    {std::move(at), without_recording::fails, again.outputs, {}});
}

int train_as_told(const CLI::App& parser, const train_args& told) {
  if (!told.checkpoints.resume.empty()) return resume(told, args_of_run(parser, told));
  const auto begin = [&parser](const train_args& w) {
    return w.dry_run ? try_out(w) : train_with(w, args_of_run(parser, w), nullptr).code;
  };
  const train_args w = with_usual_choices(told, parser);
  try {
    return begin(w);
  } catch (const gpu_declined& why) {
    say_line(fmt::format("on cores, since a GPU does not train this: {}", why.what()));
  }
  return begin(with_usual_cores(w));
}

command make_train_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("train", "Train a model on one or more devices, and report what it cost");
  auto words = std::make_shared<train_args>(open_args());
  option_table table(*parser);
  add_options(table, *words);
  add_processes(table, words->remote);
  add_patience(table, words->remote);
  add_batches_sent(table, words->remote);
  add_wire(table, words->remote);
  table.title("What to train");
  table.add("--dry-run", words->dry_run, excludes("--resume"),
            "Only say what was understood of the data, and whether model and options fit: train nothing and "
            "write nothing");
  parser->final_callback([parser] { // a run that is resumed may have processes
    if (parser->count("--processes") + parser->count("--resume") > 0) return;
    for (const char* between_processes : {"--send-batches", "--wire", "--when-alone", "--heartbeat"})
      if (parser->count(between_processes) > 0) throw CLI::RequiresError(between_processes, "--processes");
  });
  parser->footer(
      models() + policies_and_cures() + '\n' + delays_in_help() + '\n' + default_learning_rates() + '\n' +
      model_file_format() + "\n" +
      wrapped("A policy with a step, such as sync@1000, begins when that many mini-batches have been dealt. "
              "Each worker may then still have one to train, which it trains under the new policy. The "
              "report says how many were trained before.") +
      "\n\n" +
      wrapped("Ctrl-C, SIGTERM and SIGHUP end the run in good order: steps that have begun are finished, the "
              "weights are tested, and the report is written and names the signal. A signal during the test "
              "ends the test, and the report has no accuracy. A second signal ends the run at once, without "
              "a report.") +
      "\n"
      "Exit codes: 1 if the run failed, 5 if it has diverged, 2 for wrong options or input, 130 after\n"
      "Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.\n"
      "\nExample:\n"
      "  mailgrad train --model lenet --devices cpu:0,cpu:1 --policy sync --epochs 2");
  return {parser, [parser, words] { return train_as_told(*parser, *words); }};
}

command make_serve_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("serve", "Train a model with workers that join from other processes");
  auto words = std::make_shared<train_args>(open_args());
  words->devices = "cpu:0"; // workers bring them
  words->remote.serve = true;
  option_table table(*parser);
  add_options(table, *words);
  add_server(table, words->remote);
  add_wire(table, words->remote);
  parser->footer(wrapped("Holds coordinator, feeder and shards, and begins when --workers have joined by "
                         "'mailgrad join'. More may join later if --slots has places for them, and when all "
                         "are gone the run waits for others as --when-alone says. The other options are "
                         "those of 'mailgrad train'. 'mailgrad status', 'switch' and 'stop' ask the run from "
                         "anywhere. Ctrl-C ends the run and all its processes in good order.") +
                 "\n\nExample:\n"
                 "  mailgrad serve --listen 127.0.0.1:7000 --workers 2 --model lenet --policy ssp:2\n"
                 "  mailgrad join 127.0.0.1:7000 --devices cpu:0,cpu:1     # from another shell");
  return {parser, [parser, words] { return train_as_told(*parser, *words); }};
}

} // namespace mailgrad
