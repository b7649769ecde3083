#include <mailgrad/cli/report/report_file.hpp>
#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/json_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_bytes = std::size_t{1} << 26;
constexpr std::uint64_t most_workers = 1 << 16;
/// The end of a run is told after it, so the time of its point may be before that of the last point made on
/// the way.
constexpr double told_late = 1; // seconds
constexpr std::size_t most_points = 100'000;

std::string content_of(const std::string& file) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown))
    throw_malformed(file, "expected a report, found a folder; name the file that 'mailgrad train --report' "
                          "wrote");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw_unreadable(file, errno != 0 ? errno : EIO);
  std::string text(most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.gcount() == 0 && !in.eof())) throw_unreadable(file, errno != 0 ? errno : EIO);
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_bytes)
    throw_malformed(file,
                    fmt::format("expected a report, which has at most {} MiB, found more", most_bytes >> 20));
  return text;
}

std::string in_digits(std::optional<double> figure) {
  if (!figure) return "unknown";
  const bool whole = std::abs(*figure) >= 1e6 && std::abs(*figure) < 1e15; // without an exponent
  return whole ? fmt::format("{:.0f}", *figure) : fmt::format("{:.6g}", *figure);
}

/// Without these there is nothing to draw. The first one tells a report from other files.
constexpr std::array needed{"policy",  "steps",     "updates",    "wall_seconds", "local_steps",
                            "workers", "staleness", "time_split", "wait_seconds", "switches"};

/// Times that were told late are put right.
void check_curve(const report_fields& f, std::vector<metrics_line>& curve) {
  if (curve.size() > most_points)
    f.contradict(fmt::format("field 'curve': {} points are too many", curve.size()));
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const report_fields line = f.entry("curve", f.list("curve")[i]);
    for (const char* name : {"time_s", "steps", "updates", "samples", "train_loss"}) line.at(name);
    if (i == 0) continue;
    const metrics_line& before = curve[i - 1];
    if (curve[i].time_s + told_late < before.time_s || curve[i].steps < before.steps)
      f.contradict("field 'curve': time or steps go back");
    curve[i].time_s = std::max(curve[i].time_s, before.time_s);
  }
}

/// A cosine may be below 0, which other figures are not.
void check_sampled(const report_fields& f, const std::vector<sampled_figures>& sampled) {
  if (sampled.size() > most_points)
    f.contradict(fmt::format("field 'sampled': {} gradients are too many", sampled.size()));
  for (std::size_t i = 0; i < sampled.size(); ++i)
    if (std::abs(sampled[i].cosine.value_or(0)) > 1 + 1e-9)
      f.entry("sampled", f.list("sampled")[i]).fail("cosine", "a number from -1 to 1, or null");
}

std::string ledger_in_words(const report_fields& f, const std::string& ended) {
  const report_fields reasons = f.object("discarded");
  std::uint64_t discarded = 0;
  for (const auto& [reason, count] : f.at("discarded").items()) discarded += reasons.count(reason.c_str());
  const std::uint64_t produced = f.count("produced"), applied = f.count("applied"),
                      merged = f.count("merged"), lost = f.count("lost");
  const std::string text = fmt::format("{} produced = {} applied + {} merged + {} discarded + {} lost",
                                       produced, applied, merged, discarded, lost);
  if (produced == applied + merged + discarded + lost) return text;
  if (ended != "failed")
    f.contradict("ledger: " + text + " does not balance, and the run is said to have " + ended);
  return text + " (which does not balance)";
}

using facts = std::vector<std::pair<std::string, std::string>>;

std::string count_in(const report_fields& f, const char* name) { return fmt::format("{}", f.count(name)); }

std::string text_in(const report_fields& f, const char* name) {
  return f.is_null(name) ? "unknown" : f.text(name);
}

/// What was asked for.
void add_request(facts& to, const report_file& run, const report_fields& f) {
  to.emplace_back("report", run.path);
  to.emplace_back("model", f.text("model"));
  to.emplace_back("data", f.text("data"));
  to.emplace_back("policy", run.report.policy);
  if (!run.report.switches.empty()) to.emplace_back("policy at the end", run.report.switches.back().to);
  to.emplace_back("cure", f.object("cure").text("name"));
  to.emplace_back("workers", count_in(f, "workers"));
  to.emplace_back("shards", count_in(f, "shards"));
  to.emplace_back("optimiser",
                  fmt::format("{}, rate {}", f.text("optimizer"), in_digits(f.number("learning_rate"))));
  to.emplace_back("batch [samples]", count_in(f, "batch"));
  to.emplace_back("seed", count_in(f, "seed"));
}

/// Who was lost of a run over processes, back or not; no report of an older version tells.
void add_lost(facts& to, const report_fields& f) {
  if (!f.has("members") || f.is_null("members")) return;
  std::string lost;
  for (const json& each : f.object("members").list("listed")) {
    const report_fields m = f.object("members").entry("listed", each);
    if (m.count("losses") == 0) continue;
    const bool back = m.text("state") != "lost" && m.text("state") != "left";
    lost += fmt::format("{}{} {}{}: {}", lost.empty() ? "" : "; ", m.text("role"), m.count("number"),
                        back ? ", which is back" : "", m.text("why"));
  }
  if (!lost.empty()) to.emplace_back("lost", lost);
}

/// Whether the times are those of a simulated clock; no report of an older version tells.
bool is_virtual(const report_fields& f) {
  if (!f.has("delays") || f.is_null("delays")) return false;
  const report_fields delays = f.object("delays");
  return delays.has("virtual_time") && delays.at("virtual_time") == json(true);
}

/// How it ended.
void add_results(facts& to, const report_fields& f) {
  const std::string ended = f.text("ended"), why = f.text("why");
  to.emplace_back("ended", why.empty() ? ended : ended + ": " + why);
  for (const char* name : {"steps", "updates", "samples"}) to.emplace_back(name, count_in(f, name));
  to.emplace_back("epochs", in_digits(f.number("epochs")));
  const std::string clock = is_virtual(f) ? "virtual " : "";
  to.emplace_back(clock + "time [s]", in_digits(f.number("wall_seconds")));
  to.emplace_back(clock.empty() ? "samples/s" : "samples a virtual second",
                  in_digits(f.number("samples_per_second")));
  to.emplace_back("last training loss", in_digits(f.known("final_loss")));
  if (!f.is_null("test_rmse"))
    to.emplace_back("test RMSE", in_digits(f.known("test_rmse")));
  else
    to.emplace_back("test accuracy", in_digits(f.known("test_accuracy")));
  if (f.has("validation_loss") && !f.is_null("validation_loss"))
    to.emplace_back("validation loss", in_digits(f.known("validation_loss")));
  if (f.has("best") && !f.is_null("best"))
    to.emplace_back("weights of the best test, after step", count_in(f.object("best"), "steps"));
  to.emplace_back("gradients", ledger_in_words(f.object("ledger"), ended));
  add_lost(to, f);
}

void add_costs(facts& to, const report_fields& f) {
  const report_fields s = f.object("staleness"), w = f.object("wait_seconds");
  to.emplace_back("mean staleness", in_digits(s.known("mean")));
  to.emplace_back("staleness p50, p99, max",
                  fmt::format("{}, {}, {}", in_digits(s.known("p50")), in_digits(s.known("p99")),
                              in_digits(s.known("max"))));
  to.emplace_back("waited at barriers, bounds, for batches [s]",
                  fmt::format("{}, {}, {}", in_digits(w.number("barrier")), in_digits(w.number("bound")),
                              in_digits(w.number("feeder"))));
}

void add_origin(facts& to, const report_fields& f) {
  to.emplace_back("weights, SHA-256", f.text("parameters_sha256"));
  to.emplace_back("host, processor", text_in(f, "host") + ", " + text_in(f, "processor"));
  to.emplace_back("version, commit, date",
                  f.text("version") + ", " + text_in(f, "commit") + ", " + text_in(f, "date"));
}

} // namespace

report_file read_report(const std::string& path) {
  const std::string content = content_of(path);
  if (is_too_deep(content))
    throw_malformed(path, "expected a report, found lists that stand within each other too deep");
  const json parsed = json::parse(whole_json(content), nullptr, false);
  if (parsed.is_discarded())
    throw_malformed(path, content.empty() ? "expected a report as JSON, found an empty file"
                                          : "expected a report as JSON, found what is none, or is cut off");
  const report_fields f(path, parsed);
  for (const char* name : needed) f.at(name);
  if (f.count("workers") == 0 || f.count("workers") > most_workers)
    f.fail("workers", fmt::format("a number of workers from 1 to {}", most_workers));
  report_file run{path, report_in(f), f.has("curve"), {}};
  check_curve(f, run.report.curve);
  check_sampled(f, run.report.sampled);
  add_request(run.facts, run, f);
  add_results(run.facts, f);
  add_costs(run.facts, f);
  add_origin(run.facts, f);
  return run;
}

} // namespace mailgrad
