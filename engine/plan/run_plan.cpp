#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <fmt/format.h>

#include <iterator>

namespace mailgrad {

namespace {

/// Whether the shards add up the addends of a gradient, or one device of the worker does. Cures,
/// hogwild, local steps, clipping, a GPU and a user's parameter actor need one dense gradient, so a device
/// adds them up. The choice changes the bits, so facts_of() contains all that decides it.
bool adds_up_at_shards(const run_plan& plan) {
  const training_options& o = plan.options;
  const bool on_gpu = std::ranges::find(o.devices, device_kind::cuda, &device::kind) != o.devices.end();
  return !plan.shares_block() && !on_gpu && !has_shard_on_gpu(o) && o.local_steps == 0 &&
         o.optimizer.clip_norm == 0 && !o.parameter_actor && plan.cure.is_none();
}

std::uint64_t steps_of(const run_plan& plan) {
  if (!plan.options.replay) return dealer(plan.deal).batches();
  std::uint64_t dealt = 0;
  for (const auto& batches : plan.options.replay->batches) dealt += batches.size();
  return dealt;
}

/// The decisions that need neither a model nor data.
run_plan checked_plan(training_options options) {
  run_plan plan;
  if (options.replay) options.slots = options.replay->header.slots;
  require_worker_devices(options);
  plan.cure = cure_spec(options.cure, slots_of(options));
  plan.policies = checked_policies(options, plan.cure);
  plan.has_block = has_hogwild(plan.policies);
  plan.block_alone = plan.has_block && plan.policies.size() == 1 && !has_shard_on_gpu(options);
  plan.shard_rule = shard_optimizer(options, plan.cure);
  plan.options = std::move(options);
  return plan;
}

void begin_with(run_plan& plan, const saved_weights* start) {
  if (!start) return;
  weights_fit found = fit(*start, *plan.layout, first_weights(*plan.layout, plan.options.seed));
  plan.options.start_whole ? require_whole(*start, found) : require_some(*start, found);
  plan.first_weights = std::make_shared<const std::vector<float>>(std::move(found.parameters));
}

/// Between variables if the shards' optimiser, the cure or the user's parameter actor looks at whole ones.
shard_cuts cuts_for(const run_plan& plan) {
  const auto& actor = plan.options.parameter_actor;
  const bool whole = plan.cure.traits().sees_variables || sees_whole_variables(plan.shard_rule) ||
                     (actor && actor->whole_variables);
  return whole ? shard_cuts::between_variables : shard_cuts::within_variables;
}

void lay_out_weights(run_plan& plan) {
  const std::uint32_t shards = plan.has_shards() ? plan.options.shards : 1;
  plan.layout = std::make_shared<parameter_layout>(lay_out(plan.model, plan.request, shards, cuts_for(plan)));
  plan.replica_layout = plan.layout;
  if (plan.options.local_steps > 0) // a worker's own weights are one block
    plan.replica_layout = std::make_shared<parameter_layout>(lay_out(plan.model, plan.request, 1));
  require_dense_if_needed(plan.options, plan.cure, *plan.layout);
  require_parameter_place(plan.options, plan.policies, *plan.layout);
  require_whole_variables_fit(plan.options, *plan.layout);
  begin_with(plan, plan.options.start.get());
}

/// For what stands beside values: graphs, names, and the reports of long runs.
constexpr std::uint64_t room = 16 << 20;

std::uint64_t largest_shard(const parameter_layout& layout) {
  std::uint64_t largest = 0;
  for (std::size_t s = 0; s < layout.shard_count(); ++s)
    largest = std::max<std::uint64_t>(largest, layout.shard(s).size() * sizeof(float));
  return largest;
}

/// Weights, the state of the optimiser and of the cure; for each worker gradients that wait, with the weights
/// that they read, the last answer, and what the cure keeps; and the longest queue, with weights.
std::uint64_t state_of_shard(const run_plan& plan) {
  const std::uint64_t of_worker = 7 + std::uint64_t{plan.devices_per_worker()};
  const std::uint64_t queued = 2 * std::uint64_t{longest_queue(plan.policies)};
  return largest_shard(*plan.layout) * (4 + of_worker * plan.slots() + queued) +
         bytes_of_matrices(plan.shard_rule, *plan.layout);
}

/// Of local steps: weights, the state of the optimiser, the weights read last, and a step that is held.
std::uint64_t worker_state(const run_plan& plan) {
  return plan.layout->size() * sizeof(float) * 6 + bytes_of_matrices(plan.options.optimizer, *plan.layout);
}

/// How much of what lost shards had made is kept.
std::string format_kept(const training_report& r) {
  const bool written = r.checkpoints && !r.checkpoints->last.empty();
  std::error_code unknown;
  const bool earlier = r.resumed && std::filesystem::is_regular_file(r.resumed->from, unknown);
  if (!written && !earlier) return r.checkpoints ? "no checkpoint was written before" : "";
  return fmt::format("the checkpoint after step {} has what was made until then",
                     written ? r.checkpoints->steps : r.resumed->steps);
}

/// How many gradients so many steps make at most. Each worker pushes what is left of local steps at the end.
std::uint64_t most_gradients(std::uint64_t steps, const run_plan& plan) {
  const std::uint64_t each = plan.options.local_steps;
  if (each <= 1) return steps;
  return std::min(steps, (steps + each - 1) / each + std::max(plan.workers(), plan.options.slots));
}

} // namespace

std::uint32_t run_plan::workers() const { return workers_of(options); }
std::uint32_t run_plan::slots() const { return slots_of(options); }
std::uint32_t run_plan::devices_per_worker() const {
  return static_cast<std::uint32_t>(options.devices.size() / workers());
}

bool run_plan::is_elastic() const {
  if (shares_block() || options.parameter_actor) return false;
  return !options.replay || recorded_incarnations(*options.replay).any_change();
}

std::vector<std::size_t> run_plan::batch_sizes() const {
  if (!data) return {};
  std::vector<std::size_t> sizes;
  if (data->train.size() >= options.batch) sizes.push_back(options.batch);
  const std::size_t rest = data->train.size() % options.batch;
  if (rest > 0 && steps >= steps_per_epoch()) sizes.push_back(rest);
  return sizes;
}

early_stop run_plan::enough() const {
  if (options.replay) return {};
  return {stop_conditions_of(options, data.get()), options.patience,
          resumed ? resumed->tests : judged_tests{},
          options.keep == kept_weights::best ? counted_tests::always : counted_tests::for_patience,
          resumed ? resumed->steps_before() : 0};
}

std::vector<float> run_plan::first_values(std::size_t shard) const {
  const shard_range range = layout->shard(shard);
  std::vector<float> values(range.size());
  if (first_weights)
    std::ranges::copy(std::span(*first_weights).subspan(range.begin, range.size()), values.begin());
  else
    layout->initialise_shard(shard, options.seed, values);
  return values;
}

model_request run_plan::request_of(std::uint32_t worker) const {
  model_request of_worker = request;
  of_worker.worker = worker;
  of_worker.devices = devices_of(options, worker);
  return of_worker;
}

run_plan plan_run(model_function model, std::shared_ptr<const data_split> data, training_options options) {
  if (!data) throw std::invalid_argument("training: there is no data set");
  run_plan plan = checked_plan(std::move(options));
  require_data_for(plan.options, plan.policies, *data);
  plan.model = std::move(model);
  plan.data = std::move(data);
  const training_options& o = plan.options;
  plan.request = request_for(*plan.data, o.batch);
  plan.request.seed = o.seed;
  plan.request.workers = plan.workers();
  for (const dataset* part : {&plan.data->test, &plan.data->validation})
    if (part->size() > 0) require_readable(plan.request, *part);
  for (std::uint32_t r = 0; r < plan.workers(); ++r)
    require_placed(plan.model, plan.request_of(r), o.micro_batches, plan.policies);
  plan.request.devices = devices_of(o, 0);
  lay_out_weights(plan);
  for (std::uint32_t r = 0; r < plan.workers(); ++r)
    require_trained_by(devices_of(o, r), plan.model, plan.request_of(r), *plan.layout);
  if (is_automatic(o.policy) && !o.replay) plan.automatic = parse_auto(o.policy);
  if (!o.replay) plan.holds = switch_steps(plan.policies);
  plan.deal = deal_of(o, *plan.data, plan.first_policy());
  plan.steps = steps_of(plan);
  plan.sums_apart = adds_up_at_shards(plan);
  plan.update_helpers = has_shard_on_gpu(o) ? 0 : thread_count(o.devices) - 1;
  return plan;
}

run_plan plan_shards(std::shared_ptr<const parameter_layout> layout, training_options options) {
  if (!layout) throw std::invalid_argument("shards: there is no layout");
  run_plan plan = checked_plan(std::move(options));
  require_dense_if_needed(plan.options, plan.cure, *layout);
  require_whole_variables_fit(plan.options, *layout);
  plan.layout = plan.replica_layout = std::move(layout);
  begin_with(plan, plan.options.start.get());
  return plan;
}

void require_recordable(const run_plan& plan) {
  if (plan.shares_block())
    throw std::invalid_argument("--record: hogwild has no order to record, since its workers write at once; "
                                "choose another policy");
}

run_facts facts_and_names(const run_plan& plan) {
  run_facts facts = facts_of(plan.model, plan.request, *plan.data, plan.options);
  std::ranges::copy(names_of(*plan.data, plan.options), std::back_inserter(facts));
  return facts;
}

void plan_replay(run_plan& plan) {
  require_recordable(plan);
  training_options& o = plan.options;
  require_repeatable(*o.replay);
  if (o.resume && recorded_incarnations(*o.replay).any_change())
    throw recording_error(fmt::format("recording '{}': workers came or went, so it is repeated from its "
                                      "beginning alone; leave out the checkpoint",
                                      o.replay->name));
  o.keep = kept_weights::last; // those of the recorded end
  o.delays.clear();
  require_same_run(*o.replay, o, facts_and_names(plan));
  for (const recorded_switch& s : o.replay->end.switches)
    require_switch(o, plan.policies, plan.cure, s.policy); // the cure may exclude a policy of the recording
  plan.recorded_steps = dealer(plan.deal).batches();
  const bool elastic = plan.cure.traits().pull.has_value();
  const replay_terms terms{plan.first_policy().text(), o.local_steps, elastic, plan.recorded_steps};
  if (o.replay->killed)
    o.replay = std::make_shared<const recording>(repeatable_part(*o.replay, terms));
  else
    require_replay_ends(*o.replay, terms);
  plan.steps = steps_of(plan);
}

std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout) {
  const auto* shampoo = std::get_if<shampoo_options>(&rule.rule);
  if (!shampoo) return 0;
  std::uint64_t bytes = 0;
  for (const placed_variable& v : layout.variables())
    if (!v.sparse) bytes += floats_of_matrices(*shampoo, v.dims) * sizeof(float);
  return bytes;
}

std::uint64_t largest_exchange(const parameter_layout& layout, std::uint32_t devices) {
  return (2 + std::uint64_t{devices}) * largest_shard(layout) + room;
}

std::uint64_t largest_body(const run_plan& plan, std::uint32_t hosts) {
  const bool keeps = !plan.options.checkpoints.folder.empty();
  const bool resumes = plan.resumed.has_value();
  batch of_most;
  shape_batch(plan.data->train, plan.deal.batch_size, plan.request.nonzeros, of_most);
  std::uint64_t largest = std::max<std::uint64_t>(
      (2 + std::uint64_t{plan.devices_per_worker()}) * largest_shard(*plan.layout), bytes_of(of_most));
  if (keeps || resumes) largest = std::max(largest, worker_state(plan));
  if (hosts > 0) {
    const std::uint64_t shards_of_one = (plan.options.shards + hosts - 1) / hosts;
    const std::uint64_t terms_of_one = largest_shard(*plan.layout) + (resumes ? state_of_shard(plan) : 0);
    largest = std::max(largest, shards_of_one * terms_of_one);
    if (keeps) largest = std::max(largest, state_of_shard(plan));
  }
  return largest + room;
}

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
  if (const std::string words = format_kept(r); !words.empty()) r.add_reason(words);
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
                     plan.slots() > plan.workers() ? plan.slots() : 0};
  const recording* const before = plan.recorded_before.get();
  if (!before) return h;
  for (auto& [what, is] : h.facts) // a replay begins where the first process began
    if (what == first_weights_fact) is = reported_fact(before->header.facts, what);
  if (plan.options.elsewhere && plan.options.elsewhere->empty()) // workers that come must be the same
    for (const std::string_view fact : {computers_fact, products_fact})
      if (tells(before->header.facts, fact))
        h.facts.emplace_back(fact, reported_fact(before->header.facts, fact));
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
