#include <mailgrad/cli/report/run_figures.hpp>
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

/// Checked access to an object in the JSON of a report. An error names the file and the field.
///
/// Errors  file_error in one line from each member.
class report_fields {
public:
  using json = nlohmann::ordered_json;

  /// `where` is what to put before the names of fields, such as "staleness.".
  report_fields(std::string file, const json& object, std::string where = {});

  bool has(const char* name) const { return object_.contains(name); }
  bool is_null(const char* name) const { return at(name).is_null(); }
  report_fields object(const char* name) const;
  /// An empty list may be anything that follows; the caller checks its entries.
  const json& list(const char* name) const;
  std::string text(const char* name) const;
  /// A finite number of at least 0.
  double number(const char* name) const;
  /// The same, or null.
  std::optional<double> known(const char* name) const;
  /// A whole number up to 2^53, above which JSON's readers disagree.
  std::uint64_t count(const char* name) const;

  const json& at(const char* name) const;
  const std::string& file() const noexcept { return file_; }
  [[noreturn]] void fail(const char* name, const std::string& expected) const;
  [[noreturn]] void contradict(const std::string& what) const;

private:
  std::string file_;
  const json& object_;
  std::string where_;
};

constexpr std::uint64_t most = std::uint64_t{1} << 53; ///< above which readers of JSON disagree

std::string shown(const report_fields::json& found) {
  return in_quotes(found.dump(-1, ' ', false, report_fields::json::error_handler_t::replace));
}

} // namespace

report_fields::report_fields(std::string file, const json& object, std::string where)
    : file_(std::move(file)), object_(object), where_(std::move(where)) {
  if (!object_.is_object())
    throw_malformed(
        file_,
        fmt::format("{}expected an object, found {}",
                    where_.empty() ? "" : "'" + where_.substr(0, where_.size() - 1) + "': ", shown(object_)));
}

const report_fields::json& report_fields::at(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end())
    throw_malformed(
        file_,
        fmt::format("expected a report of 'mailgrad train --report', found no field '{}{}'", where_, name));
  return *found;
}

void report_fields::fail(const char* name, const std::string& expected) const {
  throw_malformed(
      file_, fmt::format("field '{}{}': expected {}, found {}", where_, name, expected, shown(at(name))));
}

void report_fields::contradict(const std::string& what) const { throw_malformed(file_, what); }

report_fields report_fields::object(const char* name) const { return {file_, at(name), where_ + name + "."}; }

const report_fields::json& report_fields::list(const char* name) const {
  if (!at(name).is_array()) fail(name, "a list");
  return at(name);
}

std::string report_fields::text(const char* name) const {
  if (!at(name).is_string()) fail(name, "a text");
  return at(name).get<std::string>();
}

double report_fields::number(const char* name) const {
  const json& found = at(name);
  if (!found.is_number() || !std::isfinite(found.get<double>()) || found.get<double>() < 0)
    fail(name, "a number of at least 0");
  return found.get<double>();
}

std::optional<double> report_fields::known(const char* name) const {
  const json& found = at(name);
  if (found.is_null()) return std::nullopt;
  if (!found.is_number() || !std::isfinite(found.get<double>())) fail(name, "a number or null");
  return found.get<double>();
}

std::uint64_t report_fields::count(const char* name) const {
  const json& found = at(name);
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() > most)
    fail(name, fmt::format("a whole number up to {}", most));
  return found.get<std::uint64_t>();
}

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

/// Pairs of gap and count; their mean must be the one that is told.
gap_counts gaps_in(const report_fields& f, const char* name) {
  gap_counts gaps;
  for (const json& pair : f.list(name)) {
    const bool two = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                     pair[1].is_number_unsigned() && pair[0] < most && pair[1] < most && pair[1] > 0;
    if (!two || (!gaps.empty() && pair[0] <= gaps.back().first))
      f.fail(name, "pairs of a gap and a count above 0, the gaps rising");
    gaps.emplace_back(pair[0].get<std::uint64_t>(), pair[1].get<std::uint64_t>());
  }
  return gaps;
}

double count_of(const gap_counts& gaps) {
  double sum = 0;
  for (const auto& [gap, count] : gaps) sum += static_cast<double>(count);
  return sum;
}

void require_mean(const report_fields& f, const gap_counts& gaps) {
  const std::optional<double> mean = f.known("mean");
  if (mean.has_value() == gaps.empty())
    f.contradict("staleness: a mean and an empty histogram, or a histogram without a mean");
  if (!mean) return;
  double sum = 0;
  for (const auto& [gap, count] : gaps) sum += static_cast<double>(gap) * static_cast<double>(count);
  const double found = sum / count_of(gaps);
  if (std::abs(found - *mean) > 1e-6 * std::max(1.0, found))
    f.contradict(
        fmt::format("staleness: the mean is said to be {}, and that of the histogram is {}", *mean, found));
}

void add_gaps(gap_counts& to, const gap_counts& more) {
  for (const auto& [gap, count] : more) {
    const auto place = std::ranges::lower_bound(to, gap, {}, [](const auto& p) { return p.first; });
    if (place != to.end() && place->first == gap)
      place->second += count;
    else
      to.insert(place, {gap, count});
  }
}

worker_figures& worker_of(run_figures& run, const report_fields& f) {
  const std::uint64_t rank = f.count("worker");
  if (rank >= run.workers.size())
    f.fail("worker", fmt::format("a rank below {}, the number of workers", run.workers.size()));
  return run.workers[rank];
}

void read_staleness(run_figures& run, const report_fields& f) {
  run.gaps = gaps_in(f, "histogram");
  require_mean(f, run.gaps);
  for (const json& each : f.list("per_shard")) {
    const report_fields x(f.file(), each, "staleness.per_shard.");
    worker_figures& worker = worker_of(run, x);
    const gap_counts gaps = gaps_in(x, "histogram");
    require_mean(x, gaps);
    add_gaps(worker.gaps, gaps);
    const double gradients = count_of(gaps);
    if (gradients > 0x1p53) x.fail("histogram", "fewer than 2^53 gradients");
    worker.gradients = std::max(worker.gradients, static_cast<std::uint64_t>(gradients));
  }
}

void read_times(run_figures& run, const report_fields& f) {
  for (const char* name : {"read", "compute", "wire", "mailbox", "apply"}) {
    if (f.is_null(name)) continue;
    const report_fields part = f.object(name);
    run.times.push_back({name, part.number("seconds"), part.number("mean"), part.number("max")});
  }
  for (const json& each : f.list("per_shard")) {
    const report_fields x(f.file(), each, "time_split.per_shard.");
    worker_figures& worker = worker_of(run, x);
    if (x.is_null("compute")) continue; // every shard is told the same time
    worker.compute_seconds = std::max(worker.compute_seconds, x.object("compute").number("seconds"));
  }
}

void read_waits(run_figures& run, const report_fields& f) {
  for (const json& each : f.list("per_worker")) {
    const report_fields x(f.file(), each, "wait_seconds.per_worker.");
    worker_figures& worker = worker_of(run, x);
    worker.barrier_seconds = x.number("barrier");
    worker.bound_seconds = x.number("bound");
    worker.feeder_seconds = x.number("feeder");
  }
}

/// Those of a curve that only points with a test have.
constexpr std::array<std::pair<const char*, std::optional<double> curve_point::*>, 6> test_figures{
    {{"test_loss", &curve_point::test_loss},
     {"test_accuracy", &curve_point::test_accuracy},
     {"test_rmse", &curve_point::test_rmse},
     {"validation_loss", &curve_point::validation_loss},
     {"validation_accuracy", &curve_point::validation_accuracy},
     {"validation_rmse", &curve_point::validation_rmse}}};

std::vector<curve_point> curve_in(const report_fields& f) {
  const json& list = f.list("curve");
  if (list.size() > most_points)
    f.contradict(fmt::format("field 'curve': {} points are too many", list.size()));
  std::vector<curve_point> curve;
  for (const json& each : list) {
    const report_fields x(f.file(), each, "curve.");
    curve_point p{x.number("time_s"), x.number("steps"), x.number("updates"), x.number("samples"),
                  x.known("train_loss")};
    for (const auto& [name, figure] : test_figures)
      if (x.has(name)) p.*figure = x.known(name);
    if (!curve.empty()) {
      if (p.time_s + told_late < curve.back().time_s || p.steps < curve.back().steps)
        f.contradict("field 'curve': time or steps go back");
      p.time_s = std::max(p.time_s, curve.back().time_s);
    }
    curve.push_back(p);
  }
  return curve;
}

/// A cosine may be below 0, which other figures are not.
std::vector<sampled_point> sampled_in(const report_fields& f) {
  std::vector<sampled_point> all;
  if (!f.has("sampled")) return all;
  const json& list = f.list("sampled");
  if (list.size() > most_points)
    f.contradict(fmt::format("field 'sampled': {} gradients are too many", list.size()));
  for (const json& each : list) {
    const report_fields x(f.file(), each, "sampled.");
    sampled_point p{static_cast<double>(x.count("lag")), x.number("gap"), {}};
    if (const json& cosine = x.at("cosine"); cosine.is_number())
      p.cosine = cosine.get<double>();
    else if (!cosine.is_null())
      x.fail("cosine", "a number from -1 to 1, or null");
    if (p.cosine && !(std::abs(*p.cosine) <= 1 + 1e-9)) x.fail("cosine", "a number from -1 to 1, or null");
    all.push_back(p);
  }
  return all;
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
void add_request(facts& to, const run_figures& run, const report_fields& f) {
  to.emplace_back("report", run.file);
  to.emplace_back("model", f.text("model"));
  to.emplace_back("data", f.text("data"));
  to.emplace_back("policy", run.policy);
  if (!run.switches.empty()) to.emplace_back("policy at the end", run.switches.back().to);
  to.emplace_back("cure", f.object("cure").text("name"));
  to.emplace_back("workers", fmt::format("{}", run.workers.size()));
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
    const report_fields m(f.file(), each, "members.listed.");
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
void add_results(facts& to, const run_figures& run, const report_fields& f) {
  const std::string ended = f.text("ended"), why = f.text("why");
  to.emplace_back("ended", why.empty() ? ended : ended + ": " + why);
  for (const char* name : {"steps", "updates", "samples"}) to.emplace_back(name, count_in(f, name));
  to.emplace_back("epochs", in_digits(f.number("epochs")));
  const std::string clock = is_virtual(f) ? "virtual " : "";
  to.emplace_back(clock + "time [s]", in_digits(run.wall_seconds));
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

run_figures read_report(const std::string& file) {
  const std::string content = content_of(file);
  if (is_too_deep(content))
    throw_malformed(file, "expected a report, found lists that stand within each other too deep");
  const json parsed = json::parse(whole_json(content), nullptr, false);
  if (parsed.is_discarded())
    throw_malformed(file, content.empty() ? "expected a report as JSON, found an empty file"
                                          : "expected a report as JSON, found what is none, or is cut off");
  const report_fields f(file, parsed);
  run_figures run;
  run.file = file;
  run.policy = f.text("policy");
  run.steps = f.count("steps");
  run.updates = f.count("updates");
  run.wall_seconds = f.number("wall_seconds");
  run.local_steps = !f.is_null("local_steps");
  if (f.count("workers") == 0 || f.count("workers") > most_workers)
    f.fail("workers", fmt::format("a number of workers from 1 to {}", most_workers));
  run.workers.resize(f.count("workers"));
  read_staleness(run, f.object("staleness"));
  read_times(run, f.object("time_split"));
  read_waits(run, f.object("wait_seconds"));
  for (const json& each : f.list("switches")) {
    const report_fields x(file, each, "switches.");
    run.switches.push_back({x.count("step"), x.text("from"), x.text("to"), x.text("why")});
  }
  if (f.has("curve")) run.curve = curve_in(f);
  run.sampled = sampled_in(f);
  add_request(run.facts, run, f);
  add_results(run.facts, run, f);
  add_costs(run.facts, f);
  add_origin(run.facts, f);
  return run;
}

} // namespace mailgrad
