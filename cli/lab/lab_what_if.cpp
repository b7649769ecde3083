#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/lab/lab_commands.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/lab/what_if.hpp>
#include <mailgrad/options/number.hpp>

#include <iostream>

namespace mailgrad {

namespace {

struct what_if_args {
  std::string recording;
  std::string data;
  std::string policy;
  std::uint32_t workers = 0;
  std::string delays;
  std::uint64_t delays_seed = 1;
  std::vector<std::string> slow; ///< each "WORKER=FACTOR"
  std::string report;
  std::string durations;
  bool quiet = false;
};

struct compared_run {
  std::string name;
  lab::run_figures figures;
  training_report report;
};

lab::slowed_worker slowed(std::string_view text) {
  const std::size_t place = text.find('=');
  const auto worker = parse_whole(text.substr(0, place));
  const auto factor = place == std::string_view::npos ? std::nullopt : parse_number(text.substr(place + 1));
  if (!worker || *worker > std::numeric_limits<std::uint32_t>::max() || !factor)
    reject("--slow '{}': write the number of a worker, from 0, and a factor, as 3=10", text);
  return {{static_cast<std::uint32_t>(*worker)}, *factor};
}

class two_columns {
public:
  void row(std::string what, std::string a, std::string b) {
    width_ = std::max(width_, a.size());
    rows_.push_back({std::move(what), std::move(a), std::move(b)});
  }
  void row(std::string what, double a, double b) {
    row(std::move(what), fmt::format("{:.5g}", a), fmt::format("{:.5g}", b));
  }
  /// No row if neither run has the figure.
  void row(std::string what, const std::optional<double>& a, const std::optional<double>& b) {
    const auto words = [](const std::optional<double>& x) { return x ? format_loss(*x) : "-"; };
    if (a || b) row(std::move(what), words(a), words(b));
  }

  std::string text() const {
    std::string all;
    for (const auto& [what, a, b] : rows_) all += fmt::format("{:<28}{:<{}}  {}\n", what, a, width_, b);
    return all;
  }

private:
  std::vector<std::array<std::string, 3>> rows_;
  std::size_t width_ = 18;
};

double rate(const lab::run_figures& f) {
  return f.seconds > 0 ? static_cast<double>(f.updates) / f.seconds : 0;
}

lab::what_if understood(const what_if_args& w) {
  lab::what_if changed{w.policy, w.workers, w.delays, w.delays_seed, {}};
  for (const std::string& text : w.slow) changed.slowed.push_back(slowed(text));
  return changed;
}

std::string side_by_side(const compared_run& a, const compared_run& b) {
  const auto gaps = [](const compared_run& r) {
    return fmt::format("{:.3f} / {} / {}", r.figures.gaps.mean(), r.figures.gaps.quantile(0.99),
                       r.figures.gaps.max());
  };
  const auto count = [](std::uint64_t n) { return fmt::format("{}", n); };
  two_columns both;
  both.row("", a.name, b.name);
  both.row("policy", a.report.policy, b.report.policy);
  both.row("workers", count(a.report.workers), count(b.report.workers));
  both.row("mini-batches", count(a.report.steps), count(b.report.steps));
  both.row("time [s]", a.figures.seconds, b.figures.seconds);
  both.row("updates/s", rate(a.figures), rate(b.figures));
  both.row("staleness mean / p99 / max", gaps(a), gaps(b));
  both.row("waiting for others [s]", a.figures.waited, b.figures.waited);
  both.row("gradients discarded", count(a.figures.discarded), count(b.figures.discarded));
  both.row("loss of the last steps", a.report.final_loss, b.report.final_loss);
  both.row("test loss", a.report.test_loss, b.report.test_loss);
  both.row("test accuracy", a.report.test_accuracy, b.report.test_accuracy);
  both.row("test RMSE", a.report.test_rmse, b.report.test_rmse);
  std::string text = both.text();
  if (!a.figures.gaps.empty() && !b.figures.gaps.empty())
    text += fmt::format("The distributions of staleness differ by {:.4f} in total variation.\n",
                        lab::total_variation(a.figures.gaps, b.figures.gaps));
  return text;
}

std::string assumptions(const lab::retimed_run& what, const lab::what_if& changed,
                        std::size_t recorded_workers) {
  std::string text = fmt::format("Assumed: the durations of steps are {}.", what.delays().name);
  if (changed.delays.empty())
    text += " They include messages, updates and batches: a step lasts from the answer to a gradient until "
            "the first shard judges the next one.";
  text +=
      " Policy and number of workers make no difference to them, though real workers share cores and memory.";
  if (!changed.delays.empty()) return wrapped(text) + '\n';
  if (what.workers() > recorded_workers)
    text += fmt::format(
        " Worker {} and those behind it take the steps of worker 0 and so on, from another place on.",
        recorded_workers);
  text += " All workers begin at one moment. One that has made all its recorded steps begins with the first "
          "again.";
  return wrapped(text) + '\n';
}

train_args words_of(const what_if_args& w, const recording& order) {
  if (order.header.words.empty())
    throw recording_error(fmt::format(
        "recording '{}' was made by a program, which alone knows its model; there, take lab::retimed_run",
        order.name));
  train_args was = recorded_values(order);
  was.outputs = {};
  was.checkpoints = {};
  was.live = {};
  was.run.sample_gap = 0;
  if (!w.data.empty()) was.data = w.data;
  return was;
}

training_report repeated(training& run, const what_if_args& w, const interrupt& ctrl_c) {
  progress_display display(w.quiet, run.total_steps());
  bool stopping = false;
  while (!run.wait_for(std::chrono::milliseconds{200})) {
    display.show(run.progress());
    if (ctrl_c.requested() && !std::exchange(stopping, true))
      run.stop("stopped by " + signal_name(ctrl_c.signal()));
  }
  display.show(run.progress());
  display.finish();
  return run.report([&] { return ctrl_c.requested(); });
}

bool has_ended_well(const training_report& r) { return r.ended == "completed" && r.why.empty(); }

/// Says why a run did not come to its end, and returns the exit code for it.
int end_without(const training_report& r, const interrupt& ctrl_c) {
  say_failure(r.why);
  if (r.ended == "diverged") return exit_code::diverged;
  return ctrl_c.requested() ? exit_code::of_signal(ctrl_c.signal()) : exit_code::failed;
}

int run_what_if(const what_if_args& w) {
  const std::string date = utc_date(std::chrono::system_clock::now());
  const lab::what_if changed = understood(w);
  const auto order = std::make_shared<const recording>(read_recording(w.recording));
  require_repeatable(*order);
  const train_args was = words_of(w, *order);
  const run_inputs inputs = inputs_of(was, order.get());
  announce_plugins(inputs);
  training_options options = with_first_weights(was);
  const lab::retimed_run retimed(options, *order, changed);
  output_paths paths;
  paths.report = w.report;
  const run_outputs outputs(paths, files_of(inputs));
  const output_file durations("durations", w.durations);
  for (const std::string& taken : {w.recording, w.report})
    if (!w.durations.empty() && durations.same_file(output_file("", taken)))
      reject("--durations: '{}' is another file of this command; name one of its own", w.durations);
  const auto data = std::make_shared<const data_split>(open_data(was.data, opened_as(was)));
  const interrupt ctrl_c;

  std::optional<lab_progress> shown;
  lab::virtual_run_options virtual_options{retimed.workers()};
  virtual_options.delays = retimed.delays();
  virtual_options.computes_discarded = true; // so that its losses can be compared
  virtual_options.stop = [&] { return ctrl_c.requested(); };
  virtual_options.on_progress = [&](const training_progress& p) {
    if (shown) shown->show(p);
  };
  lab::virtual_run other(find_model(was.model), data, retimed.options(), virtual_options);

  options.replay = order;
  training run(spanning(find_model(was.model), was.span), data, options);
  if (!w.quiet) std::cerr << fmt::format("repeating the run: {} mini-batches\n", run.total_steps());
  training_report of_run = repeated(run, w, ctrl_c);
  if (!has_ended_well(of_run)) return end_without(of_run, ctrl_c);
  if (!w.quiet) std::cerr << fmt::format("in virtual time: {}\n", retimed.options().policy);
  shown.emplace(other.total_steps(), w.quiet);
  other.run();
  shown->finish();
  training_report of_other = other.report([&] { return ctrl_c.requested(); });
  of_other.origin.commit = build_commit;
  of_other.origin.date = date;
  (outputs.take_standard_output() ? std::cerr : std::cout)
      << side_by_side({"the run", lab::figures_of(retimed.recorded()), std::move(of_run)},
                      {"what if", lab::figures_of(of_other), of_other})
      << assumptions(retimed, changed, order->header.workers);
  durations.write([&](std::ostream& out) { out << lab::trace_csv(retimed.recorded()); });
  const std::vector<std::string> failures = outputs.write(of_other, {}, {}, {});
  if (!failures.empty()) throw std::runtime_error(failures.front());
  return has_ended_well(of_other) ? exit_code::done : end_without(of_other, ctrl_c);
}

} // namespace

command make_lab_what_if(CLI::App& parent) {
  CLI::App* what_if = parent.add_subcommand(
      "what-if", "Train a recorded run again in virtual time, under another policy or with other speeds");
  const auto words = std::make_shared<what_if_args>();
  what_if_args& w = *words;
  option_table t(*what_if);
  t.add("recording", w.recording, required, value_name("FILE"),
        "The file that 'mailgrad train --record' wrote");
  t.add("--data", w.data, "Where the same data set lies now, if it has moved");
  t.add("--policy", w.policy,
        "Another policy, or several in turn; by default those of the run, with each switch where it came");
  t.add("--workers", w.workers, whole_number(1, most_simulated),
        "How many workers; by default as many as the run had");
  t.add("--delays", w.delays, value_name("LAW"),
        "How long each step takes, by a law of the list below; by default as long as recorded");
  t.add("--delays-seed", w.delays_seed, whole_number(0), shown, "Seed of that law");
  t.add(
      "--slow", w.slow, value_name("WORKER=FACTOR"),
      [](CLI::App&, CLI::Option& o) { o.expected(1)->take_all(); },
      "Let the steps of a worker, counted from 0, take so many times as long; may be given for several "
      "workers");
  t.add("--durations", w.durations, value_name("FILE"),
        "Write the durations of the recorded steps into this file, which --delays trace:FILE reads");
  t.add("--report", w.report, path("FILE"),
        "Write the report of the virtual run to this file, as one JSON object; -: to standard output");
  t.add("--quiet", w.quiet, "Show no progress");
  what_if->footer(
      wrapped("The run is repeated as recorded, for its loss, and trained once more in virtual time: the "
              "same model, samples and seeds, and as many mini-batches. Each step takes as long as it took. "
              "With nothing changed, the virtual run keeps the order of the recorded one.") +
      "\n\n" + delays_in_help() +
      "\nExit codes: 0 both runs have ended, 1 one of them failed, 5 one has diverged, 2 wrong options or a\n"
      "recording that cannot be used, 130, 143 and 129 ended by Ctrl-C, SIGTERM and SIGHUP.\n"
      "\nExample:\n"
      "  mailgrad train --devices cpu:0,cpu:1 --policy async --record run.rec\n"
      "  mailgrad lab what-if run.rec --policy ssp:2 --workers 4 --slow 3=10");
  return {what_if, [words] { return run_what_if(*words); }};
}

} // namespace mailgrad
