#include <mailgrad/cli/report_output.hpp>

#include <mailgrad/cli/printable.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <stdexcept>

namespace mailgrad {

namespace {

std::string formatted(const char* format, double figure) {
  char text[64];
  std::snprintf(text, sizeof text, format, figure);
  return text;
}

/// To the width of the words that summary lines begin with.
std::string padded(std::string word) {
  constexpr std::size_t width = 14;
  word.resize(std::max(word.size() + 1, width), ' ');
  return word;
}

std::string samples_in_words(const training_report& r) {
  std::string text = formatted("weights moved by %.3g (root mean square)", r.weight_gap.mean());
  if (!r.gradient_cosine.empty())
    text += formatted(", cosine to a fresh gradient %.4f", r.gradient_cosine.mean()) +
            formatted(", least %.4f", r.gradient_cosine.least());
  return text;
}

/// Means of one gradient on one shard; what nobody measured is left out.
std::string times_in_words(const time_split& t) {
  std::string text;
  const auto add = [&](const char* what, const duration_stat& spans) {
    if (!spans.empty())
      text += (text.empty() ? "" : ", ") + formatted("%.3f ms ", 1e3 * spans.mean_seconds()) + what;
  };
  add("read", t.read);
  add("compute", t.compute);
  add("wire", t.wire);
  add("mailbox", t.mailbox);
  add("apply", t.apply);
  return text.empty() ? "there was none" : text;
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += line.empty() ? "\n" : "  " + line + '\n';
  return all;
}

std::string staleness_in_words(const staleness_histogram& h) {
  if (h.empty()) return "no gradient was applied";
  return "mean " + formatted("%.2f", h.mean()) + ", p50 " + std::to_string(h.quantile(0.5)) + ", p99 " +
         std::to_string(h.quantile(0.99)) + ", max " + std::to_string(h.max());
}

} // namespace

run_outputs::run_outputs(const output_paths& paths, const std::vector<input_file>& inputs)
    : report_("report", paths.report), staleness_csv_("staleness histogram", paths.staleness_csv),
      trace_("trace", paths.trace) {
  if (paths.record == output_file::standard_output)
    throw std::invalid_argument(
        "--record: a recording is no output for a pipe; name a file, './-' for one of that name");
  const auto require_two = [](const output_file& a, const output_file& b, const std::string& options,
                              const std::string& path) {
    if (a.same_file(b))
      throw std::invalid_argument(options + " both name '" + path + "'; give each a file of its own");
  };
  require_two(report_, staleness_csv_, "--report and --staleness-csv", paths.report);
  require_two(report_, trace_, "--report and --trace", paths.report);
  require_two(staleness_csv_, trace_, "--staleness-csv and --trace", paths.trace);
  const output_file record("recording", paths.record);
  if (!paths.record.empty() && std::filesystem::is_fifo(paths.record))
    throw std::invalid_argument("--record: '" + paths.record +
                                "' is a pipe, and a recording is none; name a file");
  require_two(report_, record, "--report and --record", paths.record);
  require_two(staleness_csv_, record, "--staleness-csv and --record", paths.record);
  require_two(trace_, record, "--trace and --record", paths.record);
  require_no_input("--report", paths.report, inputs);
  require_no_input("--staleness-csv", paths.staleness_csv, inputs);
  require_no_input("--trace", paths.trace, inputs);
  require_no_input("--record", paths.record, inputs);
}

bool run_outputs::take_standard_output() const {
  return report_.is_standard_output() || staleness_csv_.is_standard_output() || trace_.is_standard_output();
}

void run_outputs::write(const training_report& r, const run_trace& trace) const {
  std::exception_ptr first_failure;
  const auto try_to = [&](const output_file& to, const std::function<void(std::ostream&)>& content) {
    try {
      to.write(content);
    } catch (const std::exception&) {
      if (!first_failure) first_failure = std::current_exception();
    }
  };
  try_to(report_, [&](std::ostream& out) { out << to_json(r) << '\n'; });
  try_to(staleness_csv_, [&](std::ostream& out) { out << staleness_csv(r); });
  try_to(trace_, [&](std::ostream& out) { write_trace(out, trace); });
  if (first_failure) std::rethrow_exception(first_failure);
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
  return model + (span.pipeline ? ", a pipeline" : ", replicated") +
         (micro_batches > 1 ? " of " + std::to_string(micro_batches) + " micro-batches" : "");
}

} // namespace

std::string introduction(const std::string& model, const spanning_words& span, const training_options& o,
                         const data_split& data, const training& run) {
  return data.name + ": " + std::to_string(data.train.size()) + " samples to train on, " +
         std::to_string(data.test.size()) + " to test on, " +
         (data.train.has_targets() ? "a number to predict"
                                   : std::to_string(data.train.classes()) + " classes") +
         '\n' + model_in_words(model, span, o.micro_batches) + "; " + o.policy + " on " +
         devices_in_words(o) + "; " + run.layout().balance_in_words();
}

namespace {

std::string devices_in_words(const training_report& r, std::uint32_t worker) {
  const std::size_t each = r.devices.size() / r.workers;
  std::string text;
  for (std::size_t d = 0; d < each; ++d) text.append(d == 0 ? "" : ", ").append(r.devices[worker * each + d]);
  return text;
}

/// "worker 0: cpu:0 computed 87 % of the time, cpu:1 85 %"
std::string pieces_in_words(const training_report& r) {
  std::string text;
  for (std::size_t p = 0; p < r.pieces.size(); ++p) {
    const piece_figures& piece = r.pieces[p];
    const bool first = p == 0 || piece.worker != r.pieces[p - 1].worker;
    text.append(p == 0 ? "" : first ? "; " : ", ");
    if (first) text += "worker " + std::to_string(piece.worker) + ": ";
    text += piece.device + formatted(" computed %.0f %%", 100 * piece.busy_seconds / r.wall_seconds);
    if (p == 0) text += " of the time";
  }
  return text;
}

} // namespace

std::string in_words(const training_report& r) {
  std::string text = r.ended + " after " + std::to_string(r.steps) + " steps, " + std::to_string(r.samples) +
                     " samples, " + formatted("%.2f s", r.wall_seconds) + ": " +
                     formatted("%.0f samples/s", r.samples_per_second()) + '\n';
  if (r.final_loss) text += "final loss    " + formatted("%.4f", *r.final_loss) + '\n';
  if (r.test_accuracy) text += "test accuracy " + formatted("%.4f", *r.test_accuracy) + '\n';
  if (r.test_rmse) text += "test RMSE     " + formatted("%.4f", *r.test_rmse) + '\n';
  text += "staleness     " + staleness_in_words(r.staleness) + '\n';
  for (std::uint32_t w = 0; r.workers > 1 && w < r.workers; ++w)
    text += padded("  worker " + std::to_string(w)) + staleness_in_words(staleness_of(r, w)) + " (" +
            devices_in_words(r, w) + ")\n";
  if (!r.pieces.empty()) text += "pieces        " + pieces_in_words(r) + '\n';
  if (!r.weight_gap.empty()) text += "sampled       " + samples_in_words(r) + '\n';
  if (r.cure != "none")
    text += "cure          " + r.cure +
            (r.mean_step_factor ? formatted(", mean factor %.4f", *r.mean_step_factor) : "") + '\n';
  text += "waiting       " + formatted("%.2f s at barriers, ", r.waits.barrier) +
          formatted("%.2f s at a bound, ", r.waits.bound) + formatted("%.2f s for batches", r.waits.feeder) +
          '\n';
  text += "per gradient  " + times_in_words(r.times) + '\n';
  for (const policy_switch& s : r.switches)
    text += "switched      from " + s.from + " to " + s.to + " after step " + std::to_string(s.step) + ": " +
            s.why + '\n';
  text += "gradients     " + to_string(r.ledger) + '\n';
  text += "parameters    sha256 " + r.parameters_sha256 + '\n';
  return r.sample ? text + "sample\n" + indented(printable(*r.sample)) : text;
}

} // namespace mailgrad
