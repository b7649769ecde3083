#include <mailgrad/cli/output/format_report.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/remote/run_status.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <filesystem>
#include <ranges>
#include <sstream>
#include <system_error>

namespace mailgrad {

namespace {

constexpr std::size_t terminal_width = 80;
constexpr std::size_t indent = 10;
constexpr std::uint32_t most_workers_named = 64; ///< with more the summary has no line for each

std::string line(std::string_view what, std::string_view words) {
  return fmt::format("{:<{}}{}\n", what, indent, wrapped(words, terminal_width - indent, indent));
}

std::string count(std::size_t n, std::string_view one, std::string_view more) {
  return fmt::format("{} {}", n, n == 1 ? one : more);
}

std::string format_delimiter(char delimiter) {
  return delimiter == '\t' ? "tabs" : fmt::format("'{}'", delimiter);
}

/// "'.'", or "'.' and ','" where columns differ.
std::string format_signs(std::string_view signs) {
  return signs.size() == 1 ? fmt::format("'{}'", signs)
                           : fmt::format("'{}' and '{}'", signs.front(), signs.back());
}

std::string format_form(const data_reading& r) {
  if (!r.table) return fmt::format("{}: samples of {}", r.format, to_string(r.dims));
  const table_reading& t = *r.table;
  std::string text =
      fmt::format("{} in {}, {} between fields", r.format, t.encoding, format_delimiter(t.delimiter));
  if (!t.decimal.empty()) text += fmt::format(", {} as decimal sign", format_signs(t.decimal));
  if (!t.thousands.empty()) text += fmt::format(", {} between thousands", format_signs(t.thousands));
  text += t.header ? ", with a header" : ", without a header";
  if (t.comments > 0) text += fmt::format("; {} passed over", count(t.comments, "comment", "comments"));
  return text;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  return fmt::format("{}{}",
                     fmt::join(names | std::views::take(most) | std::views::transform(in_quotes), ", "),
                     names.size() > most ? ", ..." : "");
}

std::string format_columns(const data_reading& r, const table_reading& t) {
  std::string text = fmt::format("{} of numbers", t.numbers);
  if (t.categories > 0) text += fmt::format(", {} of categories", t.categories);
  if (t.left_out > 0) text += fmt::format(", {} left out ({})", t.left_out, some_of(t.names_left_out));
  return text + "; " + count(r.inputs, "input", "inputs");
}

std::string format_label(const table_reading& t) {
  const std::string number = fmt::format("column {}", t.label_column);
  return (t.label_name.empty() ? number : fmt::format("{}, {}", in_quotes(t.label_name), number)) + ": " +
         t.label_why;
}

std::string format_task(const data_reading& r) {
  const std::string what =
      r.task == label_kind::numbers ? "a number to predict" : count(r.classes, "class", "classes");
  return fmt::format("{}: {}", what, r.task_why);
}

std::string format_classes(const data_reading& r) {
  if (r.smallest->samples == r.largest->samples)
    return count(r.largest->samples, "sample", "samples") + " each";
  return fmt::format("from {} ({}) to {} ({})", count(r.smallest->samples, "sample", "samples"),
                     in_quotes(r.smallest->name), r.largest->samples, in_quotes(r.largest->name));
}

std::string format_missing(const table_reading& t) {
  if (t.missing == 0) return "no values";
  const std::string values = count(t.missing, "value", "values");
  if (t.became == missing_values::mean) return values + ", and the mean of the column stands in for each";
  return fmt::format("{}; {} left out", values, count(t.dropped, "row was", "rows were"));
}

/// What a built-in model reads that does not read all; "" for one that does, or is none of these.
std::string read_by(const std::string& model, const std::string& kind) {
  if (model == "lenet") return "pictures";
  if (model == "gpt") return "text";
  const bool reads_no_text = model == "mlp" || model == "softmax" || model == "dlrm";
  return reads_no_text && kind == "text" ? "no text" : "";
}

std::string advice_for(const std::string& kind) {
  if (kind == "text") return "take gpt";
  if (kind == "pictures") return "take lenet, mlp or softmax";
  return kind == "rows of categories" ? "take dlrm" : "take mlp or softmax";
}

std::string gone_with_shards(const training_report& r) {
  return fmt::format("unknown, since {} had the figures and {} lost",
                     mailgrad::listed("shard", r.lost_shards), r.lost_shards.size() == 1 ? "is" : "are");
}

std::string without_lost(const training_report& r) {
  return r.lost_shards.empty()
             ? ""
             : fmt::format(", without those of the lost {}", mailgrad::listed("shard", r.lost_shards));
}

/// While the run goes on, workers and shards tell what they have done at different moments: what shards have
/// taken was certainly produced, and the rest is under way.
std::string format_ledger(const training_report& r) {
  if (!r.knows_ledger()) return "unknown, since no shard has told what became of them";
  if (r.ended != "running")
    return to_string(r.ledger) +
           (r.kept_ledger ? ", as of the lost " + mailgrad::listed("shard", r.lost_shards) : "");
  gradient_ledger taken = r.ledger;
  taken.produced = taken.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, taken.produced);
  const char* where = r.late.empty() ? "under way" : "under way or not told of yet";
  return to_string(taken) + (under_way == 0 ? "" : fmt::format("; {} more {}", under_way, where));
}

std::string format_staleness(const staleness_histogram& h, const training_report& r) {
  if (h.empty()) return unreported(r, "no gradient was applied");
  return fmt::format("mean {:.2f}, p50 {}, p99 {}, max {}", h.mean(), h.quantile(0.5), h.quantile(0.99),
                     h.max());
}

/// "means from 0.98 (worker 3) to 12.04 (worker 999)"
std::string range_of_workers(const training_report& r) {
  std::vector<staleness_histogram> gaps(r.workers);
  for (const exchange_figures& x : r.exchanges)
    if (x.worker < r.workers) gaps[x.worker].merge(x.gaps);
  const auto by_mean = [&](std::size_t a, std::size_t b) { return gaps[a].mean() < gaps[b].mean(); };
  std::vector<std::size_t> told;
  for (std::size_t w = 0; w < gaps.size(); ++w)
    if (!gaps[w].empty()) told.push_back(w);
  if (told.empty()) return format_staleness({}, r);
  const auto [least, most] = std::ranges::minmax_element(told, by_mean);
  return fmt::format("means from {:.2f} (worker {}) to {:.2f} (worker {})", gaps[*least].mean(), *least,
                     gaps[*most].mean(), *most);
}

std::string format_devices(const training_report& r, std::uint32_t worker) {
  const std::size_t each = r.devices.size() / r.workers;
  return fmt::format("{}", fmt::join(std::span(r.devices).subspan(worker * each, each), ", "));
}

std::string staleness_lines(const training_report& r) {
  std::string text = "staleness     " + format_staleness(r.staleness, r) +
                     (r.staleness.empty() ? "" : without_lost(r)) + '\n';
  if (r.workers > most_workers_named) return text + "  by worker   " + range_of_workers(r) + '\n';
  for (std::uint32_t w = 0; r.workers > 1 && w < r.workers; ++w)
    text += fmt::format("{}{} ({})\n", summary_column(fmt::format("  worker {}", w)),
                        format_staleness(staleness_of(r, w), r), format_devices(r, w));
  return text;
}

/// "worker 0: cpu:0 computed 87 % of the time, cpu:1 85 %"
std::string format_stages(const training_report& r) {
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

/// "3 sent to worker 1 and lost with it"
std::vector<std::string> format_lost(const std::vector<batch_origins>& batches) {
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
std::string format_origins(const std::vector<batch_origins>& batches) {
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
  for (const std::string& lost : format_lost(batches)) text += (text.empty() ? "" : "; ") + lost;
  return text.empty() ? "none was trained" : text;
}

/// "evaluations   3 during the run, 0.21 s on a thread of their own; 1 left out: shard 0 had no memory ..."
std::string format_evaluations(const evaluation_cost& x) {
  if (x.count == 0 && x.left_out == 0) return "";
  std::string text =
      fmt::format("evaluations   {} during the run, {:.2f} s on a thread of their own", x.count, x.seconds);
  if (x.left_out > 0)
    text += fmt::format("; {} left out{}: {}", x.left_out, x.left_out == 1 ? "" : ", the last",
                        printable(x.why_left_out));
  return text + '\n';
}

/// What failed during the run may have done at its end, and the other way round.
std::string places_of_tests(const training_report& r) {
  const std::string during = r.evaluations.why_on_host;
  const std::string at_end = r.tested ? r.tested->why_on_host : "";
  const auto line = [](const char* what, const char* when, const std::string& why) {
    return why.empty() ? ""
                       : fmt::format("{}on the host{}: {}\n", summary_column(what), when, printable(why));
  };
  const std::string text = line("text", "", r.tested ? r.tested->text_on_host : "");
  if (during == at_end) return line("tests", " during the run and at its end", during) + text;
  return line("tests", " during the run", during) + line("tests", " at the end", at_end) + text;
}

/// "12 written in 0.31 s, the last after step 6000: runs/checkpoint-0000006000.safetensors"
std::string format_checkpoints(const checkpoint_account& c) {
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
      options += (options.empty() ? "  # with another " : " or ") + std::string(option);
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

/// How to train the rest of a run that ended before all its steps: "goes on by    mailgrad train --resume
/// runs". `command` trains such runs. A run that was trained enough would end at once, so it takes another
/// option as well. A run that has kept nothing itself goes on where it began.
std::string resume_line(const training_report& r, const std::string& command) {
  const bool early = r.ended == "failed" || r.ended == "stopped";
  const std::string from = early ? last_checkpoint_of(r) : "";
  if (from.empty()) return "";
  const bool is_own = r.checkpoints && !r.checkpoints->last.empty();
  const bool writes = std::ranges::any_of(
      r.command, [](const std::string& w) { return is_output_option(w.substr(0, w.find('='))); });
  return "goes on by    " + command + " --resume " + shell_word(from) + (writes ? " --same-outputs" : "") +
         asked_to_end_by(r) + (is_own ? "" : fmt::format("  # after step {}", r.resumed->steps)) + '\n';
}

/// "1 step", "12 steps"
std::string counted(std::uint64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string format_samples(const training_report& r) {
  std::string text = fmt::format("weights moved by {:.3g} (root mean square)", r.weight_gap.mean());
  if (!r.gradient_cosine.empty())
    text += fmt::format(", cosine to a fresh gradient {:.4f}, least {:.4f}", r.gradient_cosine.mean(),
                        r.gradient_cosine.least());
  return text;
}

/// The mean times of one gradient on one shard, without the parts that were not measured.
std::string format_times(const training_report& r) {
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
  return text.empty() ? unreported(r, "there was none") : text;
}

/// A compiler that is missing says "none: ..." of itself.
std::string format_gpus(const gpu_figures& x) {
  const std::string made = fmt::format("{} chains have kernels of their own", x.generated_kernels);
  const std::string& why = x.why_interpreted;
  const bool counted = x.graph_steps + x.launched_steps > 0; // not steps of models that span devices
  const std::string steps =
      counted ? fmt::format("{} steps as graphs, {} by launches; ", x.graph_steps, x.launched_steps) : "";
  return fmt::format("{}{}{}", steps, made,
                     why.empty() ? ""
                                 : ", others none: " + (why.starts_with("none: ") ? why.substr(6) : why));
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += line.empty() ? "\n" : "  " + line + '\n';
  return all;
}

/// "900 of them since the resume; 3600 samples in 1100 steps of the present workers": the report has no
/// samples of workers that do not go on.
std::string format_trained(const training_report& r) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0;
  if (before == 0) return counted(r.samples, "sample");
  const std::uint64_t all = before + r.steps;
  return fmt::format("{} of them since the resume; {} samples in {} steps of the present workers",
                     all - std::min(all, r.resumed->steps), r.samples, r.steps);
}

} // namespace

std::string in_words(const data_reading& r) {
  std::string text = line("read as", format_form(r));
  if (r.table) text += line("columns", format_columns(r, *r.table)) + line("label", format_label(*r.table));
  text += line("task", format_task(r));
  if (r.smallest && r.largest && r.classes > 1) text += line("classes", format_classes(r));
  text += line("test", fmt::format("{}: {}", count(r.test, "sample", "samples"), r.test_why));
  if (r.table) text += line("missing", format_missing(*r.table));
  text.pop_back();
  return text;
}

std::string format_rows(std::string_view encoding, char delimiter, bool header) {
  data_reading r;
  r.format = "rows of CSV";
  r.table.emplace();
  r.table->encoding = encoding;
  r.table->delimiter = delimiter;
  r.table->header = header;
  std::string text = line("read as", format_form(r));
  text.pop_back();
  return text;
}

std::string kind_of_samples(const model_request& r) {
  if (r.features == feature_kind::tokens) return "text";
  if (!r.inputs.empty()) return "arrays";
  if (!r.categories.empty()) return "rows of categories";
  return r.sample_dims.rank() == 3 ? "pictures" : "rows of numbers";
}

std::string format_samples(const model_request& r) {
  const std::string kind = kind_of_samples(r);
  if (kind == "pictures") return fmt::format("pictures of {}x{}", r.sample_dims[0], r.sample_dims[1]);
  return kind == "rows of numbers" ? fmt::format("rows of {} numbers", r.sample_dims.size()) : kind;
}

void require_kind_of_samples(const std::string& model, const std::string& data, const model_request& r) {
  const std::string kind = kind_of_samples(r), name = model.substr(0, model.find(':'));
  const std::string read = read_by(name, kind);
  if (read.empty() || read == kind || kind == "arrays") return;
  reject("{} reads {}, and '{}' has {}: {}", name, read, data, format_samples(r), advice_for(kind));
}

std::string unreported(const training_report& r, const char* none) {
  if (!r.late.empty()) return "unknown";
  return r.lost_shards.empty() ? none : gone_with_shards(r);
}

std::string last_test_lines(const training_report& r) {
  std::string text;
  if (r.best)
    text += fmt::format("weights       of the best test, {} loss {} after step {}{}\n",
                        r.best->held_out ? "validation" : "test", format_loss(r.best->loss), r.best->steps,
                        r.best->why_last_untested.empty()
                            ? ""
                            : "; the last ones could not be tested: " + printable(r.best->why_last_untested));
  if (r.validation_loss)
    text += fmt::format("validation    loss {}{}{}\n", format_loss(*r.validation_loss),
                        r.validation_accuracy ? fmt::format(", accuracy {:.4f}", *r.validation_accuracy) : "",
                        r.validation_rmse ? ", RMSE " + format_loss(*r.validation_rmse) : "");
  if (r.test_accuracy) text += fmt::format("test accuracy {:.4f}\n", *r.test_accuracy);
  if (r.test_rmse) text += fmt::format("test RMSE     {}\n", format_loss(*r.test_rmse));
  return text;
}

std::string evaluation_lines(const training_report& r) {
  return format_evaluations(r.evaluations) + places_of_tests(r);
}

std::string in_words(const training_report& r, const std::string& command) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0; // as checkpoints and switches count
  const bool simulated = r.delays && r.delays->virtual_time;
  const char* clock = simulated ? "virtual " : "";
  std::string text = fmt::format("{} after {}, {}, {:.2f} {}s: {:.0f} samples{}\n", r.ended,
                                 counted(before + r.steps, "step"), format_trained(r), r.wall_seconds, clock,
                                 r.samples_per_second(), simulated ? " a virtual second" : "/s");
  if (r.final_loss)
    text += fmt::format("{}{}\n", summary_column(r.ended == "running" ? "loss so far" : "final loss"),
                        format_loss(*r.final_loss));
  if (!r.switches.empty())
    text += fmt::format("policy        {} since step {}\n", r.present_policy, r.switches.back().step);
  else if (r.ended == "running")
    text += "policy        " + r.present_policy + '\n';
  text += last_test_lines(r);
  const bool knows_updates = r.knows_ledger() && (r.updates > 0 || r.lost_shards.empty());
  text +=
      fmt::format("updates       {}\n", knows_updates ? std::to_string(r.updates) : unreported(r, "unknown"));
  text += staleness_lines(r);
  if (r.precision != "float32") text += "products      in " + r.precision + '\n';
  if (r.gpus) text += "GPUs          " + format_gpus(*r.gpus) + '\n';
  if (!r.stages.empty()) text += "stages        " + format_stages(r) + '\n';
  if (!r.weight_gap.empty()) text += "sampled       " + format_samples(r) + '\n';
  if (r.cure != "none")
    text += fmt::format("cure          {}{}\n", r.cure,
                        r.mean_step_factor ? fmt::format(", mean factor {:.4f}", *r.mean_step_factor) : "");
  text += fmt::format("waiting       {:.2f} s at barriers, {:.2f} s at a bound, {:.2f} s for batches\n",
                      r.waits.barrier, r.waits.bound, r.waits.feeder);
  text += "per gradient  " + format_times(r) + '\n';
  if (r.wire && !r.batches.empty() && !simulated) // simulated workers have no disks
    text += "data          " + format_origins(r.batches) + '\n';
  if (r.resumed)
    text += fmt::format("resumed       after step {}, from {}{}\n", r.resumed->steps, r.resumed->from,
                        r.resumed->products_before.empty()
                            ? ""
                            : ", where " + r.resumed->products_before + " multiplied on GPUs");
  if (r.checkpoints) text += "checkpoints   " + format_checkpoints(*r.checkpoints) + '\n';
  if (r.recording && !r.recording->failure.empty())
    text += "recording     " + format_early_end(*r.recording) + '\n';
  text += resume_line(r, command);
  text += evaluation_lines(r);
  for (const policy_switch& s : r.switches)
    text += fmt::format("switched      from {} to {} after step {}: {}\n", s.from, s.to, s.step, s.why);
  const auto stayed = [](const run_member& m) { return m.stays() && m.losses == 0; };
  if (!std::ranges::all_of(r.members, stayed))
    text += format_members(nlohmann::ordered_json::parse(to_json(r.members)));
  text += "gradients     " + format_ledger(r) + '\n';
  if (r.kept_ledger)
    text += summary_column(fmt::format("  shard {}", r.kept_ledger->shard)) +
            to_string(r.kept_ledger->counts) + '\n';
  if (!r.parameters_sha256.empty()) text += "parameters    sha256 " + r.parameters_sha256 + '\n';
  return r.sample ? text + "sample\n" + indented(printable(*r.sample)) : text;
}

} // namespace mailgrad
