#include <mailgrad/cli/report/report_file.hpp>

#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/text.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace mailgrad {

namespace {

expected_staleness unknown(std::string why) { return {{}, false, {}, std::move(why)}; }

/// The K of "k-async:K", or with `place` 1 the Q of "queue:B,Q"; nothing if it is not a number above 0.
std::optional<double> argument_of(std::string_view policy, std::size_t place = 0) {
  const named_choice choice(policy);
  if (choice.arguments.size() <= place) return std::nullopt;
  const auto found = parse_whole(choice.arguments[place]);
  return found && *found > 0 ? std::optional(static_cast<double>(*found)) : std::nullopt;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Of a worker that made so many gradients, by the shard that took most of them.
expected_staleness of_async(std::uint64_t gradients, std::uint64_t updates) {
  if (gradients == 0 || updates < gradients)
    return unknown("The worker made no update, or the run has other updates than its gradients.");
  const double share = static_cast<double>(gradients) / static_cast<double>(updates);
  return {1 / share - 1, false, share,
          "The mean of a worker that makes a share p of all updates is 1/p - 1. The line is the law for "
          "exponential times of steps, p (1 - p)^k. With steps of equal length all gaps lie at the mean."};
}

std::vector<std::uint64_t> gradients_of_workers(const training_report& r) {
  std::vector<std::uint64_t> all(r.workers);
  for (const exchange_figures& x : r.exchanges) all[x.worker] = std::max(all[x.worker], x.gaps.total());
  return all;
}

/// Of any worker under a policy other than `async`.
expected_staleness of_policy(const training_report& r, const std::string& policy) {
  const std::string_view name = name_of_choice(policy);
  const double workers = r.workers;
  const std::optional<double> k = argument_of(policy);
  if (is_one_of(name, {"sync", "backup", "k-batch-sync", "rennala", "malenia"}))
    return {0, false, {}, "Under this policy no gradient is stale."};
  if (is_one_of(name, {"ssp", "dssp", "hogwild"}))
    return {workers - 1, true, {}, "The mean over all workers is at most M - 1, where M is their number."};
  if (name == "k-async" && k)
    return {std::max(0.0, (workers - *k) / *k), false, {}, "The mean over all workers is (M - K) / K."};
  if (name == "k-batch-async" && k)
    return {(workers - 1) / *k, false, {}, "The mean over all workers is (M - 1) / K."};
  if (const std::optional<double> q = argument_of(policy, 1); name == "queue" && k && q)
    return {(workers + *q - *k) / *k,
            false,
            {},
            "The mean over all workers is (M + Q - B) / B once the queue is full."};
  if (name == "ringleader")
    return {2 * workers - 2,
            true,
            {},
            "Each gap is at most 2 M - 2, where M is the number of workers, if none comes or goes."};
  if (name == "ringmaster" && k) return {*k - 1, true, {}, "Each gap is at most R - 1."};
  return unknown("For this policy no law is known.");
}

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
    throw_malformed(file,
                    "expected a report, found a folder; name the file that 'mailgrad train --report' wrote");
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

/// Without these there is nothing to draw. The first one tells a report from other files.
constexpr std::string_view needed =
    "policy steps updates wall_seconds local_steps workers staleness time_split wait_seconds switches model "
    "data cure shards optimizer learning_rate batch seed ended why samples epochs samples_per_second "
    "final_loss test_accuracy test_rmse ledger host processor parameters_sha256 version commit date";

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

void check_ledger(const report_fields& f, const training_report& r) {
  if (r.ledger.balances() || r.ended == "failed") return;
  f.contradict(fmt::format("ledger: {} produced = {} applied + {} merged + {} discarded + {} lost does not "
                           "balance, and the run is said to have {}",
                           r.ledger.produced, r.ledger.applied, r.ledger.merged, r.ledger.discarded_in_all(),
                           r.ledger.lost, r.ended));
}

/// What only the page reads. A report of an older version may lack the fields that are not `needed`.
void check_page(const report_fields& f) {
  f.object("cure").text("name");
  f.number("samples_per_second");
  const report_fields staleness = f.object("staleness"), times = f.object("time_split");
  for (const char* name : {"p50", "p99", "max"}) staleness.known(name);
  for (const char* name : {"read", "compute", "wire", "mailbox", "apply"})
    if (!times.is_null(name)) times.object(name).number("mean");
  for (const char* name : {"host", "processor", "commit", "date"})
    if (!f.is_null(name)) f.text(name);
  if (f.has("devices")) f.list("devices");
  if (f.has("best") && !f.is_null("best")) f.object("best").count("steps");
  if (!f.has("members") || f.is_null("members")) return;
  const report_fields members = f.object("members");
  for (const json& each : members.list("listed")) {
    const report_fields member = members.entry("listed", each);
    for (const char* name : {"losses", "number"}) member.count(name);
    for (const char* name : {"role", "state", "why"}) member.text(name);
  }
}

} // namespace

std::vector<expected_staleness> expected_of(const training_report& r, const std::string& policy,
                                            std::size_t workers) {
  if (!r.switches.empty() || policy.find('@') != std::string::npos)
    return std::vector(workers, unknown("The policy changed in mid-run, so no single law holds."));
  if (name_of_choice(policy) != "async") return std::vector(workers, of_policy(r, policy));
  const std::vector<std::uint64_t> gradients = gradients_of_workers(r);
  std::vector<expected_staleness> all;
  for (std::size_t worker = 0; worker < workers; ++worker)
    all.push_back(of_async(gradients[worker], r.updates));
  return all;
}

report_file read_report(const std::string& path) {
  const std::string content = content_of(path);
  if (is_too_deep(content))
    throw_malformed(path, "expected a report, found lists that stand within each other too deep");
  const json parsed = json::parse(whole_json(content), nullptr, false);
  if (parsed.is_discarded())
    throw_malformed(path, content.empty() ? "expected a report as JSON, found an empty file"
                                          : "expected a report as JSON, found what is none, or is cut off");
  const report_fields f(path, parsed);
  for (const std::string_view name : words_between(needed, ' ')) f.at(std::string(name).c_str());
  if (f.count("workers") == 0 || f.count("workers") > most_workers)
    f.fail("workers", fmt::format("a number of workers from 1 to {}", most_workers));
  report_file run{path, report_in(f), parsed, f.has("curve")};
  check_curve(f, run.report.curve);
  check_sampled(f, run.report.sampled);
  check_ledger(f, run.report);
  check_page(f);
  return run;
}

} // namespace mailgrad
