#include <mailgrad/cli/lab/what_if_words.hpp>

#include <mailgrad/cli/commands/delay_help.hpp>
#include <mailgrad/cli/lab/lab_options.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/help_format.hpp>
#include <mailgrad/engine/account/divergence.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

lab::slowed_worker slowed(std::string_view text) {
  const std::size_t place = text.find('=');
  const auto worker = parse_whole(text.substr(0, place));
  const auto factor = place == std::string_view::npos ? std::nullopt : parse_number(text.substr(place + 1));
  if (!worker || *worker > std::numeric_limits<std::uint32_t>::max() || !factor)
    throw std::invalid_argument(
        fmt::format("--slow '{}': write the number of a worker, from 0, and a factor, as 3=10", text));
  return {{static_cast<std::uint32_t>(*worker)}, *factor};
}

/// Rows of what a figure is and its values in two runs, one below the other.
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
    const auto words = [](const std::optional<double>& x) { return x ? loss_in_words(*x) : "-"; };
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

} // namespace

void add_what_if_options(CLI::App& parser, what_if_words& w) {
  parser.add_option("recording", w.recording, "The file that 'mailgrad train --record' wrote")
      ->required()
      ->type_name("FILE");
  parser.add_option("--data", w.data, "Where the same data set lies now, if it has moved");
  parser.add_option("--policy", w.policy,
                    "Another policy, or several in turn; by default those of the run, with each switch where "
                    "it came");
  parser.add_option("--workers", w.workers, "How many workers; by default as many as the run had")
      ->check(whole_number(1, most_simulated));
  parser
      .add_option("--delays", w.delays,
                  "How long each step takes, by a law of the list below; by default as long as recorded")
      ->type_name("LAW");
  parser.add_option("--delays-seed", w.delays_seed, "Seed of that law")
      ->check(whole_number(0))
      ->capture_default_str();
  parser
      .add_option("--slow", w.slow,
                  "Let the steps of a worker, counted from 0, take so many times as long; may be given for "
                  "several workers")
      ->type_name("WORKER=FACTOR")
      ->expected(1)
      ->take_all();
  parser
      .add_option("--durations", w.durations,
                  "Write the durations of the recorded steps into this file, which --delays trace:FILE reads")
      ->type_name("FILE");
  parser
      .add_option("--report", w.report,
                  "Write the report of the virtual run to this file, as one JSON object; -: to standard "
                  "output")
      ->check(file_name())
      ->type_name("FILE");
  parser.add_flag("--quiet", w.quiet, "Show no progress")->disable_flag_override();
}

std::string what_if_in_help() {
  return wrapped(
             "The run is repeated as recorded, for its loss, and trained once more in virtual time: the same "
             "model, samples and seeds, and as many mini-batches. Each step takes as long as it took. With "
             "nothing changed, the virtual run keeps the order of the recorded one.",
             help_width) +
         "\n\n" + delays_in_help() +
         "\nExit codes: 0 both runs have ended, 1 one of them failed, 5 one has diverged, 2 wrong options or "
         "a\n"
         "recording that cannot be used, 130, 143 and 129 ended by Ctrl-C, SIGTERM and SIGHUP.\n"
         "\nExample:\n"
         "  mailgrad train --devices cpu:0,cpu:1 --policy async --record run.rec\n"
         "  mailgrad lab what-if run.rec --policy ssp:2 --workers 4 --slow 3=10";
}

lab::what_if understood(const what_if_words& w) {
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
    text +=
        " They include messages, updates and batches: a step lasts from the answer to a gradient until the "
        "first shard judges the next one.";
  text +=
      " Policy and number of workers make no difference to them, though real workers share cores and memory.";
  if (!changed.delays.empty()) return wrapped(text, help_width) + '\n';
  if (what.workers() > recorded_workers)
    text += fmt::format(" Worker {} and those behind it take the steps of worker 0 and so on, from another "
                        "place on.",
                        recorded_workers);
  text += " All workers begin at one moment. One that has made all its recorded steps begins with the first "
          "again.";
  return wrapped(text, help_width) + '\n';
}

} // namespace mailgrad
