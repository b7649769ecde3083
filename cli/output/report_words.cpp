#include <mailgrad/cli/output/report_words.hpp>

#include <mailgrad/cli/output/batch_words.hpp>
#include <mailgrad/cli/output/ledger_words.hpp>
#include <mailgrad/cli/output/printable.hpp>
#include <mailgrad/cli/output/summary_column.hpp>
#include <mailgrad/cli/output/test_words.hpp>
#include <mailgrad/cli/output/unknown_figures.hpp>
#include <mailgrad/cli/output/way_on_words.hpp>
#include <mailgrad/cli/output/worker_words.hpp>
#include <mailgrad/cli/remote/members_table.hpp>

#include <mailgrad/engine/account/divergence.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <sstream>

namespace mailgrad {

namespace {

/// "1 step", "12 steps"
std::string counted(std::uint64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string samples_in_words(const training_report& r) {
  std::string text = fmt::format("weights moved by {:.3g} (root mean square)", r.weight_gap.mean());
  if (!r.gradient_cosine.empty())
    text += fmt::format(", cosine to a fresh gradient {:.4f}, least {:.4f}", r.gradient_cosine.mean(),
                        r.gradient_cosine.least());
  return text;
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

/// A compiler that is missing says "none: ..." of itself.
std::string cards_in_words(const card_figures& x) {
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
std::string trained_in_words(const training_report& r) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0;
  if (before == 0) return counted(r.samples, "sample");
  const std::uint64_t all = before + r.steps;
  return fmt::format("{} of them since the resume; {} samples in {} steps of the present workers",
                     all - std::min(all, r.resumed->steps), r.samples, r.steps);
}

/// While the run goes on, and of one that did not end under the policy it began with.
std::string policy_line(const training_report& r) {
  if (r.switches.empty()) return r.ended == "running" ? "policy        " + r.present_policy + '\n' : "";
  return fmt::format("policy        {} since step {}\n", r.present_policy, r.switches.back().step);
}

/// If somebody left before the end, or was lost.
std::string member_lines(const training_report& r) {
  const bool all_stayed =
      std::ranges::all_of(r.members, [](const run_member& m) { return m.stays() && m.losses == 0; });
  return all_stayed ? "" : members_in_words(nlohmann::ordered_json::parse(to_json(r.members)));
}

} // namespace

std::string in_words(const training_report& r, const std::string& command) {
  const std::uint64_t before = r.resumed ? r.resumed->steps_before : 0; // as checkpoints and switches count
  const bool simulated = r.delays && r.delays->virtual_time;
  const char* clock = simulated ? "virtual " : "";
  std::string text = fmt::format("{} after {}, {}, {:.2f} {}s: {:.0f} samples{}\n", r.ended,
                                 counted(before + r.steps, "step"), trained_in_words(r), r.wall_seconds,
                                 clock, r.samples_per_second(), simulated ? " a virtual second" : "/s");
  if (r.final_loss)
    text += fmt::format("{}{}\n", summary_column(r.ended == "running" ? "loss so far" : "final loss"),
                        loss_in_words(*r.final_loss));
  text += policy_line(r);
  text += last_test_lines(r);
  text += "updates       " + updates_in_words(r) + '\n';
  text += staleness_lines(r);
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
  if (r.wire && !r.batches.empty() && !simulated) // simulated workers have no disks
    text += "data          " + origins_in_words(r.batches) + '\n';
  if (r.resumed)
    text += fmt::format("resumed       after step {}, from {}{}\n", r.resumed->steps, r.resumed->from,
                        r.resumed->products_before.empty()
                            ? ""
                            : ", where " + r.resumed->products_before + " multiplied on cards");
  if (r.checkpoints) text += "checkpoints   " + checkpoints_in_words(*r.checkpoints) + '\n';
  if (r.recording && !r.recording->failure.empty())
    text += "recording     " + early_end_in_words(*r.recording) + '\n';
  text += way_on_in_words(r, command);
  text += evaluation_lines(r);
  for (const policy_switch& s : r.switches)
    text += fmt::format("switched      from {} to {} after step {}: {}\n", s.from, s.to, s.step, s.why);
  text += member_lines(r);
  text += ledger_lines(r);
  if (!r.parameters_sha256.empty()) text += "parameters    sha256 " + r.parameters_sha256 + '\n';
  return r.sample ? text + "sample\n" + indented(printable(*r.sample)) : text;
}

} // namespace mailgrad
