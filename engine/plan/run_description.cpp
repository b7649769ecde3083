#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_description.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace mailgrad {

void describe(training_report& r, const run_plan& plan) {
  const training_options& o = plan.options;
  r.command = o.words;
  r.policy = o.policy;
  r.present_policy = r.switches.empty() ? plan.first_policy().text() : r.switches.back().to;
  r.cure = plan.cure.text();
  r.model = o.model_name;
  r.data = plan.data->name;
  r.reading = plan.data->reading;
  r.optimizer = name(o.optimizer);
  r.learning_rate = base_learning_rate(o.optimizer);
  r.batch = o.batch;
  if (!o.delays.empty()) r.delays = prescribed_delays{o.delays, o.delays_seed};
  r.local_steps = o.local_steps;
  if (o.local_steps > 0) {
    r.outer_optimizer = name(o.outer);
    r.outer_learning_rate = base_learning_rate(o.outer);
  }
  r.shards = plan.has_shards() ? o.shards : 0;
  if (const auto cure = plan.cure.make({plan.workers()}); cure && !o.parameter_actor)
    r.mean_step_factor = mean_factor(*cure, r.staleness);
  r.workers = std::max(r.workers, plan.workers());
  for (std::uint32_t w = 0; w < r.workers; ++w)
    for (const device d : devices_of(o, w)) r.devices.push_back(to_string(d));
  r.precision = name(o.precision);
  r.micro_batches = o.micro_batches;
  r.origin = this_program();
  r.epochs = static_cast<double>(r.steps) / static_cast<double>(plan.steps_per_epoch());
  r.weights = plan.layout->weight_count();
  r.seed = o.seed;
  if (o.replay && o.replay->killed && r.ended == "completed")
    r.why = fmt::format("the recording ends after {} of {} steps, since it was not completed", r.steps,
                        plan.recorded_steps);
}

namespace {

/// How much of what lost shards had made is kept.
std::string kept_in_words(const training_report& r) {
  const bool written = r.checkpoints && !r.checkpoints->last.empty();
  std::error_code unknown;
  const bool earlier = r.resumed && std::filesystem::is_regular_file(r.resumed->from, unknown);
  if (!written && !earlier) return r.checkpoints ? "no checkpoint was written before" : "";
  return fmt::format("the checkpoint after step {} has what was made until then",
                     written ? r.checkpoints->steps : r.resumed->steps);
}

} // namespace

void describe(training_report& r, const run_plan& plan, instant elapsed, const checkpoint_account& kept) {
  describe(r, plan);
  if (plan.options.parameter_actor)
    for (std::string* policy : {&r.policy, &r.present_policy})
      *policy += " by " + plan.options.parameter_actor->name;
  r.wall_seconds = in_seconds(elapsed);
  if (const auto& from = plan.resumed) {
    r.resumed = resumed_figures{from->from->path().string(), from->card.steps, from->steps_before(),
                                from->products_before};
    r.wall_seconds += in_seconds(from->elapsed());
  }
  if (!plan.options.checkpoints.folder.empty()) r.checkpoints = kept;
  if (r.lost_shards.empty()) return;
  if (const std::string words = kept_in_words(r); !words.empty()) r.add_reason(words);
}

void date_switches(training_report& r, const run_plan& plan, instant started) {
  const instant before = plan.resumed ? plan.resumed->elapsed() : instant{0};
  for (policy_switch& s : r.switches)
    if (s.ended > instant{0} && s.ended >= started) s.time_s = in_seconds(before + s.ended - started);
}

board_options options_of(const run_plan& plan) {
  const training_options& o = plan.options;
  const auto count = [](std::uint64_t n) { return static_cast<double>(n); };
  return {{"model", o.model_name},
          {"data", plan.data->name},
          {"policy", o.policy},
          {"cure", plan.cure.text()},
          {"optimizer", std::string(name(o.optimizer))},
          {"learning_rate", base_learning_rate(o.optimizer)},
          {"schedule", to_string(o.optimizer.schedule)},
          {"batch", count(o.batch)},
          {"workers", count(plan.workers())},
          {"shards", count(plan.has_shards() ? o.shards : 0)},
          {"local_steps", count(o.local_steps)},
          {"seed", count(o.seed)}};
}

recording_header recording_header_of(const run_plan& plan) {
  recording_header h{plan.workers(), plan.options.shards, facts_and_names(plan), plan.options.words,
                     plan.seats() > plan.workers() ? plan.seats() : 0};
  const recording* const before = plan.recorded_before.get();
  if (!before) return h;
  for (auto& [what, is] : h.facts) // a replay begins where the first process began
    if (what == first_weights_fact) is = told_fact(before->header.facts, what);
  if (plan.options.elsewhere && plan.options.elsewhere->empty()) // workers that come must be the same
    for (const std::string_view fact : {computers_fact, products_fact})
      if (tells(before->header.facts, fact))
        h.facts.emplace_back(fact, told_fact(before->header.facts, fact));
  return h;
}

/// Before there is a checkpoint it counts as four arrays, such as those of Adam and of a cure.
std::uint64_t room_beside_recording(const run_plan& plan, const checkpoint_account& so_far) {
  constexpr std::uint64_t reports = std::uint64_t{1} << 18, most = 4;
  const checkpoint_options& o = plan.options.checkpoints;
  const std::uint64_t weights = plan.layout->size() * sizeof(float);
  if (o.folder.empty()) return weights + reports;
  const std::uint64_t each = so_far.written > 0 ? so_far.bytes / so_far.written : 4 * weights;
  const std::uint64_t there = std::min<std::uint64_t>(so_far.written, o.keep);
  return weights + reports + std::min(most, o.keep - there + 1) * each;
}

namespace {

/// How many gradients so many steps make at most. Of local steps each worker pushes what is left over at the
/// end as a gradient of its own.
std::uint64_t most_gradients(std::uint64_t steps, const run_plan& plan) {
  const std::uint64_t each = plan.options.local_steps;
  if (each <= 1) return steps;
  return std::min(steps, (steps + each - 1) / each + std::max(plan.workers(), plan.options.seats));
}

} // namespace

std::vector<std::string> update_remarks(const run_plan& plan) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < plan.policies.size(); ++i) {
    const scheduled_policy& p = plan.policies[i];
    const std::uint64_t end = i + 1 < plan.policies.size() ? plan.policies[i + 1].from_step : plan.steps;
    const std::uint64_t gradients = most_gradients(end - std::min(end, p.from_step), plan);
    if (p.policy.gathers() > 1 && p.policy.gathers() > gradients)
      all.push_back(
          fmt::format("policy {}: an update is made of {} gradients or more, and all under it, {} at most, "
                      "are less, so they make one update, at its end",
                      p.policy.text(), p.policy.gathers(), gradients));
  }
  return all;
}

} // namespace mailgrad
