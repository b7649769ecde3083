#include <mailgrad/cli/output/report_output.hpp>

#include <mailgrad/cli/output/printable.hpp>

#include <mailgrad/actors/protocol/listed.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/shell_word.hpp>
#include <mailgrad/tensor/byte_count.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

/// Pads a word to the width of the first column of the summary.
std::string padded(std::string word) {
  constexpr std::size_t width = 14;
  word.resize(std::max(word.size() + 1, width), ' ');
  return word;
}

std::string samples_in_words(const training_report& r) {
  std::string text = fmt::format("weights moved by {:.3g} (root mean square)", r.weight_gap.mean());
  if (!r.gradient_cosine.empty())
    text += fmt::format(", cosine to a fresh gradient {:.4f}, least {:.4f}", r.gradient_cosine.mean(),
                        r.gradient_cosine.least());
  return text;
}

/// "shards 0, 2"
std::string lost_of(const training_report& r) { return mailgrad::listed("shard", r.lost_shards); }

/// What stands in the place of figures that lost shards had.
std::string gone_with_shards(const training_report& r) {
  return fmt::format("unknown, since {} had the figures and {} lost", lost_of(r),
                     r.lost_shards.size() == 1 ? "is" : "are");
}

/// What stands behind figures of which lost shards had a part.
std::string without_lost(const training_report& r) {
  return r.lost_shards.empty() ? "" : fmt::format(", without those of the lost {}", lost_of(r));
}

/// What stands in the place of figures that nobody has told: `none` if there are none.
std::string untold(const training_report& r, const char* none) {
  if (!r.late.empty()) return "unknown";
  return r.lost_shards.empty() ? none : gone_with_shards(r);
}

/// The mean times of one gradient on one shard, without the parts that were not measured.
std::string times_in_words(const training_report& r) {
  const time_split& t = r.times;
  std::string text;
  const auto add = [&](const char* what, const duration_stat& spans) {
    if (!spans.empty())
      text += fmt::format("{}{:.3f} ms {}", text.empty() ? "" : ", ", 1e3 * spans.mean_seconds(), what);
  };
  add("read", t.read);
  add("compute", t.compute);
  add("wire", t.wire);
  add("mailbox", t.mailbox);
  add("apply", t.apply);
  return text.empty() ? untold(r, "there was none") : text;
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += line.empty() ? "\n" : "  " + line + '\n';
  return all;
}

std::string staleness_in_words(const staleness_histogram& h, const training_report& r) {
  if (h.empty()) return untold(r, "no gradient was applied");
  return fmt::format("mean {:.2f}, p50 {}, p99 {}, max {}", h.mean(), h.quantile(0.5), h.quantile(0.99),
                     h.max());
}

/// With more workers, the summary has no line for each.
constexpr std::uint32_t most_workers_named = 64;

/// "means from 0.98 (worker 3) to 12.04 (worker 999)"
std::string range_of_workers(const training_report& r) {
  std::vector<staleness_histogram> gaps(r.workers);
  for (const exchange_figures& x : r.exchanges)
    if (x.worker < r.workers) gaps[x.worker].merge(x.gaps);
  const auto by_mean = [&](std::size_t a, std::size_t b) { return gaps[a].mean() < gaps[b].mean(); };
  std::vector<std::size_t> told;
  for (std::size_t w = 0; w < gaps.size(); ++w)
    if (!gaps[w].empty()) told.push_back(w);
  if (told.empty()) return staleness_in_words({}, r);
  const auto [least, most] = std::ranges::minmax_element(told, by_mean);
  return fmt::format("means from {:.2f} (worker {}) to {:.2f} (worker {})", gaps[*least].mean(), *least,
                     gaps[*most].mean(), *most);
}

std::string validation_in_words(const training_report& r) {
  std::string text = fmt::format("loss {:.4f}", *r.validation_loss);
  if (r.validation_accuracy) text += fmt::format(", accuracy {:.4f}", *r.validation_accuracy);
  if (r.validation_rmse) text += fmt::format(", RMSE {:.4f}", *r.validation_rmse);
  return text;
}

void require_metrics_apart(const output_paths& paths) {
  if (paths.metrics == output_file::standard_output)
    throw std::invalid_argument("--metrics: the lines go to a file; name one, './-' for one of that name");
  if (paths.tensorboard == output_file::standard_output)
    throw std::invalid_argument("--tensorboard: events go to a folder; name one, './-' for one of that name");
  const output_file metrics("metrics", paths.metrics);
  for (const auto& [option, path] :
       {std::pair{"--report", &paths.report}, std::pair{"--staleness-csv", &paths.staleness_csv},
        std::pair{"--trace", &paths.trace}, std::pair{"--record", &paths.record},
        std::pair{"--save", &paths.save}})
    if (metrics.same_file(output_file("output", *path)))
      throw std::invalid_argument(
          fmt::format("--metrics and {} both name '{}'; give each a file of its own", option, *path));
}

} // namespace

run_outputs::run_outputs(const output_paths& paths, const std::vector<input_file>& inputs)
    : report_("report", paths.report), staleness_csv_("staleness histogram", paths.staleness_csv),
      trace_("trace", paths.trace), weights_(paths.save) {
  if (paths.record == output_file::standard_output)
    throw std::invalid_argument(
        "--record: a recording is no output for a pipe; name a file, './-' for one of that name");
  const auto require_two = [](const output_file& a, const output_file& b, const std::string& options,
                              const std::string& path) {
    if (a.same_file(b))
      throw std::invalid_argument(
          fmt::format("{} both name '{}'; give each a file of its own", options, path));
  };
  require_two(report_, staleness_csv_, "--report and --staleness-csv", paths.report);
  require_two(report_, trace_, "--report and --trace", paths.report);
  require_two(staleness_csv_, trace_, "--staleness-csv and --trace", paths.trace);
  const output_file record("recording", paths.record);
  if (!paths.record.empty() && std::filesystem::is_fifo(paths.record))
    throw std::invalid_argument(
        fmt::format("--record: '{}' is a pipe, and a recording is none; name a file", paths.record));
  require_two(report_, record, "--report and --record", paths.record);
  require_two(staleness_csv_, record, "--staleness-csv and --record", paths.record);
  require_two(trace_, record, "--trace and --record", paths.record);
  const output_file save("weights", paths.save);
  require_two(report_, save, "--report and --save", paths.report);
  require_two(staleness_csv_, save, "--staleness-csv and --save", paths.save);
  require_two(trace_, save, "--trace and --save", paths.save);
  require_two(record, save, "--record and --save", paths.save);
  require_metrics_apart(paths);
  require_no_input("--report", paths.report, inputs);
  require_no_input("--staleness-csv", paths.staleness_csv, inputs);
  require_no_input("--trace", paths.trace, inputs);
  require_no_input("--record", paths.record, inputs);
  require_no_input("--save", paths.save, inputs);
  require_no_input("--metrics", paths.metrics, inputs);
}

bool run_outputs::take_standard_output() const {
  return report_.is_standard_output() || staleness_csv_.is_standard_output() || trace_.is_standard_output();
}

std::vector<std::string> run_outputs::write(const training_report& r, const run_trace& trace,
                                            std::span<const named_weights> weights,
                                            const model_card& card) const {
  std::vector<std::string> failures;
  const auto try_to = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const std::exception& e) {
      failures.emplace_back(e.what());
    }
  };
  try_to([&] { weights_.write(weights, card, r); });
  try_to([&] { report_.write([&](std::ostream& out) { out << to_json(r) << '\n'; }); });
  try_to([&] { staleness_csv_.write([&](std::ostream& out) { out << staleness_csv(r); }); });
  try_to([&] { trace_.write([&](std::ostream& out) { write_trace(out, trace); }); });
  return failures;
}

namespace {

/// "cpu:0, cpu:1", or with workers that span devices "cpu:0 + cpu:1, cpu:2 + cpu:3".
std::string devices_in_words(const training_options& o) {
  const std::size_t each = o.devices.size() / std::max<std::size_t>(1, o.workers);
  std::string text;
  for (std::size_t d = 0; d < o.devices.size(); ++d)
    text.append(d == 0 ? "" : d % each == 0 ? ", " : " + ").append(to_string(o.devices[d]));
  return text;
}

/// "mlp, a pipeline of 8 micro-batches"
std::string model_in_words(const std::string& model, const spanning_words& span, std::size_t micro_batches) {
  if (!span.any()) return model;
  return fmt::format("{}, {}{}", model, span.pipeline ? "a pipeline" : "replicated",
                     micro_batches > 1 ? fmt::format(" of {} micro-batches", micro_batches) : "");
}

/// A line if a run on a card was not tested there. What failed during the run may have done at its end.
std::string place_of_tests_in_words(const training_report& r) {
  const std::string at_end = r.tested ? r.tested->why_on_host : "";
  const std::string& why = at_end.empty() ? r.evaluations.why_on_host : at_end;
  return why.empty() ? "" : "tests         " + why + '\n';
}

/// A compiler that is missing says "none: ..." of itself.
std::string cards_in_words(const card_figures& x) {
  const std::string made = fmt::format("{} chains have kernels of their own", x.generated_kernels);
  const std::string& why = x.why_interpreted;
  return fmt::format("{} steps as graphs, {} by launches; {}{}", x.graph_steps, x.launched_steps, made,
                     why.empty() ? ""
                                 : ", others none: " + (why.starts_with("none: ") ? why.substr(6) : why));
}

} // namespace

std::string introduction(const std::string& model, const spanning_words& span, const training_options& o,
                         const data_split& data, const training& run, const std::string& where) {
  const std::string held_out =
      data.validation.size() > 0 ? fmt::format(", {} held out", data.validation.size()) : "";
  return fmt::format("{}: {} samples to train on{}, {} to test on, {}\n{}; {} on {}; {}", data.name,
                     data.train.size(), held_out, data.test.size(),
                     data.train.has_targets() ? "a number to predict"
                                              : fmt::format("{} classes", data.train.classes()),
                     model_in_words(model, span, o.micro_batches), o.policy,
                     where.empty() ? devices_in_words(o) : where, run.layout().balance_in_words());
}

namespace {

std::string devices_in_words(const training_report& r, std::uint32_t worker) {
  const std::size_t each = r.devices.size() / r.workers;
  std::string text;
  for (std::size_t d = 0; d < each; ++d) text.append(d == 0 ? "" : ", ").append(r.devices[worker * each + d]);
  return text;
}

/// "worker 0: cpu:0 computed 87 % of the time, cpu:1 85 %"
std::string stages_in_words(const training_report& r) {
  if (r.workers > most_workers_named) {
    const auto [least, most] = std::ranges::minmax(r.stages, {}, &stage_figures::busy_seconds);
    return fmt::format("computed from {:.0f} % to {:.0f} % of the time",
                       100 * least.busy_seconds / r.wall_seconds, 100 * most.busy_seconds / r.wall_seconds);
  }
  std::string text;
  for (std::size_t p = 0; p < r.stages.size(); ++p) {
    const stage_figures& stage = r.stages[p];
    const bool first = p == 0 || stage.worker != r.stages[p - 1].worker;
    text.append(p == 0 ? "" : first ? "; " : ", ");
    if (first) text += fmt::format("worker {}: ", stage.worker);
    text += fmt::format("{} computed {:.0f} %", stage.device, 100 * stage.busy_seconds / r.wall_seconds);
    if (p == 0) text += " of the time";
  }
  return text;
}

} // namespace

namespace {

/// "12 written in 0.31 s, the last after step 6000: runs/checkpoint-0000006000.safetensors"
std::string checkpoints_in_words(const checkpoint_account& c) {
  std::string text = fmt::format("{} written", c.written);
  if (c.written > 0)
    text += fmt::format(" in {:.2f} s, the last after step {}: {}", c.seconds, c.steps, c.last);
  if (c.skipped > 0)
    text += fmt::format("; {} skipped, which became due before the one before could be begun", c.skipped);
  if (c.held_seconds > 0) text += fmt::format("; workers stood still for {:.3f} s", c.held_seconds);
  if (c.removed_for_room > 0)
    text += fmt::format("; {} older {} removed to make room on the full disk", c.removed_for_room,
                        c.removed_for_room == 1 ? "one was" : "ones were");
  if (c.failed > 0) text += fmt::format("; {} failed, the last: {}", c.failed, c.failure);
  return text;
}

/// Of a run that was ended because it was trained enough, the options that said so, to be given anew.
std::string asked_to_end_by(const training_report& r) {
  std::string options;
  for (const char* option : {"--stop-when", "--patience"})
    if (std::ranges::any_of(r.command, [&](const std::string& w) { return w.starts_with(option); }))
      options += (options.empty() ? " with another " : " or ") + std::string(option);
  return r.enough ? options : "";
}

/// Whether this is the newest checkpoint of its folder, as far as that can be read.
bool is_newest_checkpoint(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code unknown;
  try {
    const std::vector<std::filesystem::path> all = checkpoints_in(folder);
    return !all.empty() && std::filesystem::equivalent(all.front(), file, unknown);
  } catch (const std::exception&) {
    return false;
  }
}

/// The folder whose newest checkpoint has the run as far as it was kept: one of its own, or else the one that
/// it went on from. That file itself, if the folder has a newer one, of another run. Empty if there is none.
std::string last_checkpoint_of(const training_report& r) {
  const auto folder_of = [](const std::string& file) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    return folder.empty() ? std::string(".") : folder.string();
  };
  if (r.checkpoints && !r.checkpoints->last.empty()) return folder_of(r.checkpoints->last);
  std::error_code unknown;
  if (!r.resumed || !std::filesystem::is_regular_file(r.resumed->from, unknown)) return "";
  const std::string folder = folder_of(r.resumed->from);
  return is_newest_checkpoint(r.resumed->from, folder) ? folder : r.resumed->from;
}

/// How to train the rest of a run that ended before all its steps: "goes on by    --resume runs". A run that
/// was trained enough would end at once, so it takes another option as well. A run that has kept nothing
/// itself goes on where it began.
std::string way_on_in_words(const training_report& r, const std::string& recording) {
  const bool early = r.ended == "failed" || r.ended == "stopped";
  const std::string from = early ? last_checkpoint_of(r) : "";
  if (from.empty()) return "";
  const std::string replay = recording.empty() ? "" : "mailgrad replay " + shell_word(recording) + ' ';
  const bool is_own = r.checkpoints && !r.checkpoints->last.empty();
  return "goes on by    " + replay + "--resume " + shell_word(from) + asked_to_end_by(r) +
         (is_own ? "" : fmt::format(" (after step {})", r.resumed->steps)) + '\n';
}

/// "3 sent to worker 1 and lost with it"
std::vector<std::string> lost_in_words(const std::vector<batch_origins>& batches) {
  std::vector<std::string> each;
  std::uint64_t all = 0;
  for (std::size_t w = 0; w < batches.size(); ++w) {
    if (batches[w].lost == 0) continue;
    all += batches[w].lost;
    each.push_back(fmt::format("{} sent to worker {} and lost with it", batches[w].lost, w));
  }
  if (each.size() <= most_workers_named) return each;
  return {fmt::format("{} sent to {} workers and lost with them", all, each.size())};
}

/// "936 batches from the own disk of workers 0, 2, 94.1 MiB not sent; 2 batches sent to workers 0, 1"
std::string origins_in_words(const std::vector<batch_origins>& batches) {
  std::vector<std::size_t> by_own, by_sent; // workers
  batch_origins all;
  for (std::size_t w = 0; w < batches.size(); ++w) {
    if (batches[w].own > 0) by_own.push_back(w);
    if (batches[w].sent > 0) by_sent.push_back(w);
    all.own += batches[w].own;
    all.sent += batches[w].sent;
    all.spared_bytes += batches[w].spared_bytes;
  }
  const auto told = [](std::uint64_t count, const char* whence, const std::vector<std::size_t>& workers) {
    const std::string whose =
        workers.size() > most_workers_named
            ? fmt::format("{} workers", workers.size())
            : fmt::format("worker{} {}", workers.size() == 1 ? "" : "s", fmt::join(workers, ", "));
    return fmt::format("{} batch{} {} {}", count, count == 1 ? "" : "es", whence, whose);
  };
  std::string text;
  if (all.own > 0)
    text += fmt::format("{}, {} not sent", told(all.own, "from the own disk of", by_own),
                        byte_count(all.spared_bytes).text());
  if (all.sent > 0) text += (text.empty() ? "" : "; ") + told(all.sent, "sent to", by_sent);
  for (const std::string& lost : lost_in_words(batches)) text += (text.empty() ? "" : "; ") + lost;
  return text.empty() ? "none was trained" : text;
}

} // namespace

namespace {

/// While the run goes on, workers and shards tell what they have done at different moments: what shards have
/// taken was certainly produced, and the rest is under way.
std::string ledger_in_words(const training_report& r) {
  if (!r.knows_ledger()) return "unknown, since no shard has told what became of them";
  if (r.ended != "running")
    return to_string(r.ledger) + (r.kept_ledger ? ", as of the lost " + lost_of(r) : "");
  gradient_ledger taken = r.ledger;
  taken.produced = taken.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, taken.produced);
  const char* where = r.late.empty() ? "under way" : "under way or not told of yet";
  return to_string(taken) + (under_way == 0 ? "" : fmt::format("; {} more {}", under_way, where));
}

/// The ledger, and where it is that of a lost shard, that of one that is left.
std::string ledgers_in_words(const training_report& r) {
  std::string text = "gradients     " + ledger_in_words(r) + '\n';
  if (r.kept_ledger)
    text += padded(fmt::format("  shard {}", r.kept_ledger->shard)) + to_string(r.kept_ledger->counts) + '\n';
  return text;
}

/// "900 of them since the resume; 3600 samples in 1100 steps of the present workers": the report has no
/// samples of workers that do not go on.
std::string trained_in_words(const training_report& r) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0;
  if (before == 0) return fmt::format("{} samples", r.samples);
  const std::uint64_t all = before + r.steps;
  return fmt::format("{} of them since the resume; {} samples in {} steps of the present workers",
                     all - std::min(all, r.resumed->steps), r.samples, r.steps);
}

std::string updates_in_words(const training_report& r) {
  return r.knows_ledger() && (r.updates > 0 || r.lost_shards.empty()) ? fmt::format("{}", r.updates)
                                                                      : untold(r, "unknown");
}

} // namespace

std::string in_words(const training_report& r, const std::string& recording) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0; // as checkpoints and switches count
  std::string text =
      fmt::format("{} after {} steps, {}, {:.2f} s: {:.0f} samples/s\n", r.ended, before + r.steps,
                  trained_in_words(r), r.wall_seconds, r.samples_per_second());
  if (r.final_loss)
    text +=
        fmt::format("{}{:.4f}\n", padded(r.ended == "running" ? "loss so far" : "final loss"), *r.final_loss);
  if (r.best)
    text += fmt::format("weights       of the best test, {} loss {:.4f} after step {}\n",
                        r.best->held_out ? "validation" : "test", r.best->loss, r.best->steps);
  if (r.validation_loss) text += fmt::format("validation    {}\n", validation_in_words(r));
  if (r.test_accuracy) text += fmt::format("test accuracy {:.4f}\n", *r.test_accuracy);
  if (r.test_rmse) text += fmt::format("test RMSE     {:.4f}\n", *r.test_rmse);
  text += "updates       " + updates_in_words(r) + '\n';
  text += "staleness     " + staleness_in_words(r.staleness, r) +
          (r.staleness.empty() ? "" : without_lost(r)) + '\n';
  if (r.workers > most_workers_named) text += "  by worker   " + range_of_workers(r) + '\n';
  for (std::uint32_t w = 0; r.workers > 1 && w < r.workers && r.workers <= most_workers_named; ++w)
    text += fmt::format("{}{} ({})\n", padded(fmt::format("  worker {}", w)),
                        staleness_in_words(staleness_of(r, w), r), devices_in_words(r, w));
  if (r.precision != "float32") text += "products      in " + r.precision + '\n';
  if (r.cards) text += "cards         " + cards_in_words(*r.cards) + '\n';
  if (!r.stages.empty()) text += "stages        " + stages_in_words(r) + '\n';
  if (!r.weight_gap.empty()) text += "sampled       " + samples_in_words(r) + '\n';
  if (r.cure != "none")
    text += fmt::format("cure          {}{}\n", r.cure,
                        r.mean_step_factor ? fmt::format(", mean factor {:.4f}", *r.mean_step_factor) : "");
  text += fmt::format("waiting       {:.2f} s at barriers, {:.2f} s at a bound, {:.2f} s for batches\n",
                      r.waits.barrier, r.waits.bound, r.waits.feeder);
  text += "per gradient  " + times_in_words(r) + '\n';
  const bool simulated = r.delays && r.delays->virtual_time; // such workers have no disks
  if (r.wire && !r.batches.empty() && !simulated)
    text += "data          " + origins_in_words(r.batches) + '\n';
  if (r.resumed)
    text += fmt::format("resumed       after step {}, from {}{}\n", r.resumed->steps, r.resumed->from,
                        r.resumed->products_before.empty()
                            ? ""
                            : ", where " + r.resumed->products_before + " multiplied on cards");
  if (r.checkpoints) text += "checkpoints   " + checkpoints_in_words(*r.checkpoints) + '\n';
  if (r.recording && !r.recording->failure.empty())
    text += "recording     " + early_end_in_words(*r.recording) + '\n';
  text += way_on_in_words(r, recording);
  if (r.evaluations.count > 0)
    text += fmt::format("evaluations   {} during the run, {:.2f} s on a thread of their own\n",
                        r.evaluations.count, r.evaluations.seconds);
  text += place_of_tests_in_words(r);
  for (const policy_switch& s : r.switches)
    text += fmt::format("switched      from {} to {} after step {}: {}\n", s.from, s.to, s.step, s.why);
  text += ledgers_in_words(r);
  if (!r.parameters_sha256.empty()) text += "parameters    sha256 " + r.parameters_sha256 + '\n';
  return r.sample ? text + "sample\n" + indented(printable(*r.sample)) : text;
}

} // namespace mailgrad
