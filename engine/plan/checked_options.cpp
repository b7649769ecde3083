#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/optim/rules/muon.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

/// A run as the constraints see it. What is not known yet is null.
struct asked_run {
  const training_options& o;
  const std::vector<scheduled_policy>* policies = nullptr;
  const cure_spec* cure = nullptr;
  const data_split* data = nullptr;
  const parameter_layout* layout = nullptr;
  const optimizer_options* rule = nullptr; ///< one of its rules, that looks at whole variables

  bool hogwild() const { return has_hogwild(*policies); }
  bool switches() const { return policies->size() > 1 || is_automatic(o.policy); }
  bool has_slots() const { return slots_of(o) != workers_of(o); }
  bool spans() const { return o.devices.size() > workers_of(o); }
  bool is_ordered() const { return !o.record.empty() || o.replay; }
  bool clips() const { return o.optimizer.clip_norm != 0; }
  bool samples() const { return o.sample_gap > 0; }
  bool tests() const { return !o.evaluate_every.never(); }
  const parameter_actor_kind* actor() const { return o.parameter_actor.get(); }

  const placed_variable* table() const {
    if (!layout) return nullptr;
    const auto found = std::ranges::find(layout->variables(), true, &placed_variable::sparse);
    return found == layout->variables().end() ? nullptr : &*found;
  }
};

/// What a case has found: nothing, or something, which may have a name.
using finding = std::optional<std::string>;
finding found(bool yes) { return yes ? finding("") : finding(); }
finding found(finding it) { return it; }

/// The host is no core: "host", or the core that somebody named.
std::string format_place(device d) { return d == device{} ? "host" : to_string(d); }

std::string format_places(const asked_run& r) {
  std::string words;
  for (const device d : r.o.parameters) words += (words.empty() ? "" : ",") + format_place(d);
  return words;
}

finding first_of(device_kind kind, const std::vector<device>& devices) {
  const auto found = std::ranges::find(devices, kind, &device::kind);
  return found == devices.end() ? finding() : to_string(*found);
}

/// What the constraints of a group look at. Each group is asked for at its moment.
enum class about : std::uint8_t {
  devices,
  gradients,
  members,
  whole_variables,
  sums,
  switching,
  precision,
  places,
  weights_on_gpu,
  tables_on_gpu,
  tables,
  rule_in_layout,
  steps_ahead,
  recording,
  amounts,
  tests
};

/// A case that no run may be, and the sentence that refuses it, with "{it}" for what it found (see filled()).
struct constraint {
  about what;
  finding (*finds)(const asked_run&);
  const char* sentence;

  template <class Case> // a lambda without captures that says yes or no
  constexpr constraint(about group, Case, const char* text)
      : what(group), finds([](const asked_run& r) { return found(Case{}(r)); }), sentence(text) {}
  constexpr constraint(about group, finding (*function)(const asked_run&), const char* text)
      : what(group), finds(function), sentence(text) {}
};

/// "worker 0 would have cpu:1"
finding device_named_twice(const asked_run& r) {
  for (std::uint32_t w = 0; w < workers_of(r.o); ++w) {
    const std::vector<device> own = devices_of(r.o, w);
    for (auto d = own.begin(); d != own.end(); ++d)
      if (std::find(own.begin(), d, *d) != d) return fmt::format("worker {} would have {}", w, to_string(*d));
  }
  return {};
}

/// "3 places for 2 shards; give as many"
finding places_without_shard(const asked_run& r) {
  const std::size_t places = r.o.parameters.size();
  if (places <= r.o.shards) return {};
  return fmt::format("{} places for {} shard{}", places, r.o.shards, r.o.shards == 1 ? "" : "s");
}

/// A device of the run that is not the GPU on which its first weights lie.
finding off_the_gpu(const asked_run& r) {
  const device first = r.o.parameters.front();
  for (const std::vector<device>& all : {r.o.parameters, r.o.devices})
    for (const device d : all)
      if (!is_same_gpu(first, d)) return to_string(is_same_gpu(first, first) ? d : first);
  return {};
}

/// What reads the rows of a table's gradient on the host.
finding reader_of_rows(const asked_run& r) {
  if (r.clips()) return "clipping";
  if (r.samples()) return "sampling of gaps";
  for (const scheduled_policy& p : *r.policies)
    if (p.policy.traits().has_rounds) return fmt::format("policy '{}'", p.policy.text());
  return {};
}

finding needs_dense(const asked_run& r) {
  if (!r.table()) return {};
  if (r.o.all_reduce) return "all-reduce";
  if (r.o.local_steps > 0) return "--local-steps";
  return r.cure->traits().compensates ? finding(fmt::format("cure '{}'", r.o.cure)) : finding();
}

/// The words that nobody has asked for fit some models only.
finding word_of_no_variable(const asked_run& r) {
  const auto* muon = std::get_if<muon_options>(&r.rule->rule);
  if (!muon || muon->adamw == muon_options::default_adamw) return {};
  for (const std::string& word : words_for_adamw(*muon)) {
    const auto has_word = [&](const placed_variable& v) { return v.name.find(word) != std::string::npos; };
    if (std::ranges::none_of(r.layout->variables(), has_word))
      return fmt::format("'{}' to adamw: no variable of the model has this in its name; one is '{}'", word,
                         r.layout->variables().back().name);
  }
  return {};
}

bool no_worker_on_gpu_of_weights(const asked_run& r) {
  const auto has_all = [&](device worker) {
    return !r.o.parameters.empty() &&
           std::ranges::all_of(r.o.parameters, [&](device place) { return is_same_gpu(worker, place); });
  };
  return std::ranges::none_of(r.o.devices, has_all);
}

/// "step 6, before the switch at step 7"
finding end_before_switch(const asked_run& r) {
  if (r.policies->size() == 1 || r.o.replay) return {};
  const std::uint64_t steps = dealer(deal_of(r.o, *r.data, r.policies->front().policy)).batches();
  const std::uint64_t last = r.policies->back().from_step;
  return last < steps ? finding() : fmt::format("step {}, before the switch at step {}", steps, last);
}

finding custom_rule_in(const asked_run& r) {
  for (const optimizer_options* used : {&r.o.optimizer, &r.o.outer})
    if (std::holds_alternative<custom_rule>(used->rule)) return std::string(name(*used));
  return {};
}

// In a group, the order is that in which a run is told what is wrong.
constexpr constraint constraints[] = {
    {about::devices, [](auto& r) { return r.o.devices.empty(); },
     "--devices: name at least one, such as cpu:0"},
    {about::devices, [](auto& r) { return r.o.devices.size() % workers_of(r.o) != 0; },
     "workers: {devices} devices cannot be shared out to {workers} workers; name so many devices, or a "
     "multiple"},
    {about::devices, [](auto& r) { return slots_of(r.o) < workers_of(r.o); },
     "--slots: {slots} for {workers} workers; give at least as many"},
    {about::devices, device_named_twice, "--devices: {it} twice; a model spans different devices"},
    {about::devices, [](auto& r) { return r.o.micro_batches == 0; },
     "--micro-batches: 0; at least 1 is needed"},
    {about::devices, [](auto& r) { return r.o.micro_batches > 1 && !r.spans(); },
     "--micro-batches: each worker has one device, which computes its batch at one go; give workers several "
     "devices, or leave it out"},
    // Workers of local steps and of hogwild give no gradient, and a predicting cure moves their weights.
    {about::gradients, [](auto& r) { return r.o.local_steps > 0 && r.hogwild(); },
     "--local-steps: under hogwild workers write into one block at every step; take async"},
    {about::gradients, [](auto& r) { return r.o.local_steps > 0 && r.samples(); },
     "--sample-gap: with --local-steps shards get differences, which no batch has a fresh gradient for; "
     "leave one of both out"},
    {about::gradients, [](auto& r) { return r.samples() && r.hogwild() && r.policies->size() == 1; },
     "--sample-gap: under hogwild no version stays to compare with; take async"},
    {about::gradients, [](auto& r) { return r.samples() && r.cure->traits().predicts; },
     "--sample-gap: under cure '{cure}' workers compute at predicted weights, which no version is to be "
     "compared with; leave one of both out"},
    // Who joins late begins with the weights of the shards, and the shards tell what they took of who died.
    {about::members, [](auto& r) { return r.actor() && r.hogwild(); },
     "parameter actor '{actor}': hogwild has no parameter actors"},
    {about::members, [](auto& r) { return r.actor() && !r.actor()->switches && r.switches(); },
     "parameter actor '{actor}' switches no policy; name one alone"},
    {about::members, [](auto& r) { return r.actor() && r.cure->traits().pull; },
     "cure '{cure}': workers would be drawn to what parameter actor '{actor}' knows nothing of"},
    {about::members, [](auto& r) { return r.actor() && r.is_ordered(); },
     "--record: parameter actor '{actor}' does not tell the order in which it takes gradients"},
    {about::members, [](auto& r) { return r.has_slots() && r.hogwild(); },
     "--slots: under hogwild no actor can let a worker in later; leave them out, or take async"},
    {about::members, [](auto& r) { return r.has_slots() && r.actor(); },
     "--slots: parameter actor '{actor}' takes only the workers that a run begins with"},
    {about::whole_variables, [](auto& r) { return r.hogwild(); },
     "optimizer '{rule}' looks at whole variables, and under hogwild workers write weights one by one; take "
     "async"},
    {about::whole_variables, [](auto& r) { return first_of(device_kind::cuda, r.o.parameters); },
     "optimizer '{rule}' looks at whole variables on the host, and weights lie on {it}; leave one of both "
     "out"},
    {about::sums, [](auto& r) { return r.o.policy != sync_policy::policy_name; },
     "--all-reduce: expected policy sync, under which every update is a mean over all workers, found "
     "'{policy}'; take --policy sync, or leave --all-reduce out"},
    {about::sums, [](auto& r) { return r.o.cure != "none" ? finding(r.o.cure) : finding(); },
     "--all-reduce: expected no cure, which needs the gradient of each worker, found '{it}'; leave --cure "
     "out"},
    {about::sums, [](auto& r) { return r.clips(); },
     "--all-reduce: expected no clipping, which needs the norm of each gradient; leave --clip-norm out"},
    {about::sums, [](auto& r) { return r.o.local_steps != 0; },
     "--all-reduce: expected no local steps, whose differences are no gradients; leave --local-steps out"},
    {about::sums, [](auto& r) { return r.samples(); },
     "--all-reduce: expected no sampling of gaps, which compares single gradients; leave --sample-gap out"},
    {about::sums, [](auto& r) { return r.has_slots(); },
     "--all-reduce: expected no slots for later workers, since each sum is over the ranks that began; leave "
     "--slots out"},
    {about::sums, [](auto& r) { return r.is_ordered(); },
     "--all-reduce: expected no recording, since a replay has the gradients of each worker and adds them up "
     "otherwise; leave --record out"},
    {about::sums, [](auto& r) { return !r.o.checkpoints.folder.empty() || r.o.resume; },
     "--all-reduce: expected no checkpoints, since a sum that is under way belongs to no worker's part; "
     "leave --checkpoint out"},
    {about::sums, [](auto& r) { return r.actor() != nullptr; },
     "--all-reduce: expected Mailgrad's own parameter actor; leave the other out"},
    {about::sums, [](auto& r) { return r.o.devices.size() != workers_of(r.o); },
     "--all-reduce: expected one device for each worker; leave the others out"},
    // A worker that paused for the switch would hold up a sum, and who waits for the sum does not pause.
    {about::switching, [](auto& r) { return r.o.all_reduce; },
     "--all-reduce: expected no switch of policy, since who pauses for it would hold up a sum"},
    {about::precision,
     [](auto& r) {
       return r.o.precision == product_precision::float32 ? finding()
                                                          : first_of(device_kind::cpu, r.o.devices);
     },
     "--precision: {precision}: {it} computes in float32 alone; name streams of GPUs as the devices, or take "
     "--precision float32"},
    {about::places, places_without_shard,
     "--parameters: {places}: {it}; give as many shards, or fewer places"},
    {about::weights_on_gpu,
     [](auto& r) { return r.hogwild() ? off_the_gpu(r) : finding(); }, // to write to one block
     "--parameters: {places}: under hogwild all weights and all workers share one GPU, and {it} is "
     "elsewhere; name streams of that GPU alone, or take async"},
    {about::weights_on_gpu, [](auto& r) { return r.o.all_reduce; },
     "--parameters: {places}: all-reduce adds gradients up on the host; leave one of both out"},
    {about::weights_on_gpu, [](auto& r) { return r.actor() != nullptr; },
     "--parameters: {places}: parameter actor '{actor}' runs on the host; leave one of both out"},
    {about::weights_on_gpu, custom_rule_in,
     "--parameters: {places}: rule '{it}' is a user's, which runs on the host; leave one of both out"},
    {about::weights_on_gpu, [](auto& r) { return r.spans() && r.samples(); },
     "--parameters: {places}: sampling of gaps reads the whole gradient of a model that spans devices on the "
     "host; leave one of both out"},
    {about::weights_on_gpu, [](auto& r) { return r.spans() && r.clips(); },
     "--parameters: {places}: clipping reads the whole gradient of a model that spans devices on the host; "
     "leave one of both out"},
    {about::weights_on_gpu, [](auto& r) { return r.cure->traits().sees_variables; },
     "--parameters: {places}: cure '{cure}' looks at whole variables on the host; leave one of both out"},
    {about::weights_on_gpu, [](auto& r) { return r.cure->is_custom(); },
     "--parameters: {places}: cure '{cure}' is a user's, which runs on the host; leave one of both out"},
    {about::tables_on_gpu, off_the_gpu,
     "--parameters: {places}: with table '{table}' all weights and all workers share one GPU, and {it} is "
     "elsewhere; name streams of that GPU alone"},
    {about::tables_on_gpu, reader_of_rows,
     "--parameters: {places}: {it} needs the gradient of table '{table}' on the host; leave one of both out"},
    {about::tables, needs_dense,
     "{it}: the gradient of table '{table}' comes in rows, and this needs all of it; take a model without "
     "tables"},
    {about::rule_in_layout,
     [](auto& r) {
       return r.table() && !std::holds_alternative<muon_options>(r.rule->rule) &&
              !std::holds_alternative<shampoo_options>(r.rule->rule);
     },
     "optimizer '{rule}' looks at whole variables, and the gradient of table '{table}' comes in rows; take "
     "muon, shampoo or a rule of single weights"},
    {about::rule_in_layout, word_of_no_variable, "optimizer '{rule}' leaves {it}"},
    {about::steps_ahead, [](auto& r) { return r.clips(); },
     "--run-ahead 1: workers do not run ahead with --clip-norm, which reads each gradient first; take "
     "--run-ahead 0"},
    {about::steps_ahead, [](auto& r) { return r.samples(); },
     "--run-ahead 1: workers do not run ahead with --sample-gap, which compares each gradient first; take "
     "--run-ahead 0"},
    {about::steps_ahead, [](auto& r) { return r.spans(); },
     "--run-ahead 1: workers do not run ahead if a model spans devices; take --run-ahead 0"},
    {about::steps_ahead, [](auto& r) { return r.hogwild(); },
     "--run-ahead 1: workers do not run ahead in a run under hogwild; take --run-ahead 0"},
    {about::steps_ahead, [](auto& r) { return no_worker_on_gpu_of_weights(r); },
     "--run-ahead 1: workers do not run ahead unless all weights are on their GPU; take --run-ahead 0"},
    {about::recording,
     [](auto& r) { return !r.o.record.empty() && r.o.replay ? finding(r.o.replay->name) : finding(); },
     "--record: a replay repeats recording '{it}' and makes none of its own"},
    {about::recording, [](auto& r) { return !r.o.tensorboard.empty() && !can_write_tensorboard(); },
     "--tensorboard: this Mailgrad was built without Protocol Buffers"},
    {about::recording, [](auto& r) { return r.o.shards == 0; }, "--shards: 0; at least 1 is needed"},
    {about::amounts, [](auto& r) { return r.o.batch == 0; }, "--batch: 0 samples; at least 1 is needed"},
    {about::amounts, [](auto& r) { return r.o.epochs == 0 && r.o.steps == 0; },
     "--epochs and --steps are both 0: nothing to do"},
    {about::amounts, [](auto& r) { return r.data->train.size() == 0; },
     "data '{data}' holds no sample to train on"},
    {about::amounts, [](auto& r) { return r.o.batch > r.data->train.size(); },
     "--batch: {batch} samples; the training set has {samples}"},
    {about::tests, [](auto& r) { return !r.tests() && r.o.patience > 0; },
     "--patience: the weights are not tested during the run; say how often to test, as --evaluate-every "
     "epoch"},
    {about::tests, [](auto& r) { return !r.tests() && r.o.keep == kept_weights::best; },
     "--keep-weights best: the weights are not tested during the run; say how often to test, as "
     "--evaluate-every epoch"},
    {about::tests,
     [](auto& r) { return r.tests() && r.data->test.size() == 0 && r.data->validation.size() == 0; },
     "--evaluate-every: data '{data}' holds no sample to test on"},
    {about::tests, [](auto& r) { return r.tests() && r.actor(); },
     "--evaluate-every: parameter actor '{actor}' is not asked for its weights before the end"},
    {about::tests, end_before_switch, "policy '{policy}': the run ends at {it}"},
};

std::string filled(const char* sentence, const asked_run& r, const std::string& it) {
  return fmt::format(
      fmt::runtime(sentence), fmt::arg("it", it), fmt::arg("batch", r.o.batch),
      fmt::arg("policy", r.o.policy), fmt::arg("slots", r.o.slots), fmt::arg("workers", workers_of(r.o)),
      fmt::arg("cure", r.o.cure), fmt::arg("devices", r.o.devices.size()),
      fmt::arg("precision", name(r.o.precision)), fmt::arg("places", format_places(r)),
      fmt::arg("actor", r.actor() ? r.actor()->name : ""), fmt::arg("rule", r.rule ? name(*r.rule) : ""),
      fmt::arg("table", r.table() ? r.table()->name : ""), fmt::arg("data", r.data ? r.data->name : ""),
      fmt::arg("samples", r.data ? r.data->train.size() : 0));
}

/// Refuses the first case of this group.
/// Errors  std::invalid_argument in one line.
void require(about group, const asked_run& r) {
  for (const constraint& c : constraints)
    if (c.what == group)
      if (const finding it = c.finds(r)) throw std::invalid_argument(filled(c.sentence, r, *it));
}

std::vector<const optimizer_options*> rules_of_whole_variables(const training_options& o) {
  std::vector<const optimizer_options*> all;
  if (sees_whole_variables(o.optimizer)) all.push_back(&o.optimizer);
  if (o.local_steps > 0 && sees_whole_variables(o.outer)) all.push_back(&o.outer);
  return all;
}

void require_whole_variables_fit(asked_run run) {
  for (const optimizer_options* rule : rules_of_whole_variables(run.o)) {
    run.rule = rule;
    require(about::whole_variables, run);
  }
}

cure_setting setting_of(const training_options& o, const std::vector<scheduled_policy>& policies) {
  cure_setting setting{{}, slots_of(o), o.local_steps > 0 ? o.outer : o.optimizer, o.local_steps};
  for (const scheduled_policy& p : policies) setting.policies.push_back(p.policy);
  if (is_automatic(o.policy)) setting.policies.emplace_back("async", slots_of(o));
  return setting;
}

void require_places(const asked_run& r) {
  const auto refuse = [&](const char* why) {
    throw std::invalid_argument(fmt::format("--parameters: {}: {}", format_places(r), why));
  };
  for (const device d : r.o.parameters) {
    if (d.kind == device_kind::cpu && d.index != 0) refuse("weights on the host belong to no core; say host");
    if (d.stream != 0) refuse("name the GPU alone; each shard has a stream of its own there");
    if (d.kind == device_kind::cuda) require_here(d);
  }
  require(about::places, r);
  if (has_shard_on_gpu(r.o)) require(about::weights_on_gpu, r);
}

/// A replay takes the precision of its recording, so its devices are what can be other ones.
void require_precision_of(const training_options& o) {
  if (o.elsewhere) return;
  if (o.replay && o.precision != product_precision::float32 && first_of(device_kind::cpu, o.devices))
    throw recording_error(fmt::format("recording '{}': its products were in {}, and a core computes in "
                                      "float32 alone; replay it on GPUs, such as --devices cuda:0",
                                      o.replay->name, name(o.precision)));
  require_precision(o.devices, o.precision);
}

/// A condition on a figure that no line of this run has would never hold.
void require_figures(const std::vector<stop_condition>& conditions, const data_split& data) {
  const bool numbers = data.train.has_targets();
  for (const stop_condition& c : conditions)
    if (c.figure.ends_with(numbers ? "_accuracy" : "_rmse"))
      throw std::invalid_argument(
          fmt::format("--stop-when: data '{}' has {} to predict, so '{}' is not known; take {}", data.name,
                      numbers ? "numbers" : "classes", c.figure, numbers ? "rmse" : "accuracy"));
}

} // namespace

void require_worker_devices(const training_options& o) { require(about::devices, {o}); }

void require_sums_can_be(const training_options& o) {
  if (o.all_reduce) require(about::sums, {o});
}

void require_precision(const std::vector<device>& devices, product_precision p) {
  training_options o;
  o.devices = devices;
  o.precision = p;
  require(about::precision, {o});
}

void require_run_ahead(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (o.run_ahead.value_or(0) > most_run_ahead)
    throw std::invalid_argument(
        fmt::format("--run-ahead: {} steps; at most {} can be begun while one is under way", *o.run_ahead,
                    most_run_ahead));
  if (o.run_ahead.value_or(0) > 0 && !o.replay) require(about::steps_ahead, {o, &policies});
}

std::vector<scheduled_policy> checked_policies(const training_options& o, const cure_spec& cure) {
  auto policies = parse_policy_schedule(o.policy, slots_of(o));
  const asked_run run{o, &policies, &cure};
  require_valid(o.optimizer);
  require_valid(o.outer);
  require(about::gradients, run);
  cure.require_fits(setting_of(o, policies));
  require(about::members, run);
  require_whole_variables_fit(run);
  require_sums_can_be(o);
  require_precision_of(o);
  require_places(run);
  require_run_ahead(o, policies);
  if (!o.delays.empty() && !o.replay) delay_spec(o.delays, slots_of(o)); // refuses what is none
  require(about::recording, run);
  return policies;
}

void require_data_for(const training_options& o, const std::vector<scheduled_policy>& policies,
                      const data_split& data) {
  const asked_run run{.o = o, .policies = &policies, .data = &data};
  require(about::amounts, run);
  if (o.text.length > 0 && data.train.is_tokens())
    require_writable(o.text, data.class_names, data.train.classes());
  if (!o.delays.empty() && !o.replay) delay_spec(o.delays, slots_of(o)).require_fits(data.train);
  if (!o.replay) stop_conditions_of(o, &data); // refuses what cannot be known
  require(about::tests, run);
}

void require_switch(const training_options& o, std::vector<scheduled_policy> policies, const cure_spec& cure,
                    const std::string& policy) {
  policies.push_back({0, policy_spec(policy, slots_of(o))});
  const asked_run run{o, &policies, &cure};
  require(about::switching, run);
  require_whole_variables_fit(run);
  require_places(run);
  cure.require_fits(setting_of(o, policies));
}

void require_dense_if_needed(const training_options& o, const cure_spec& cure,
                             const parameter_layout& layout) {
  require(about::tables, {.o = o, .cure = &cure, .layout = &layout});
}

void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const parameter_layout& layout) {
  const asked_run run{.o = o, .policies = &policies, .layout = &layout};
  if (has_shard_on_gpu(o) && run.table()) require(about::tables_on_gpu, run);
}

void require_whole_variables_fit(const training_options& o, const parameter_layout& layout) {
  for (const optimizer_options* rule : rules_of_whole_variables(o))
    require(about::rule_in_layout, {.o = o, .layout = &layout, .rule = rule});
}

dealer_options deal_of(const training_options& o, const data_split& data, const policy_spec& first_policy) {
  return {data.train.size(),
          o.batch,
          o.steps > 0 ? std::numeric_limits<std::uint32_t>::max() : o.epochs,
          o.steps,
          o.seed,
          first_policy.traits().deals_by_rank ? deal_mode::by_rank : deal_mode::on_demand,
          workers_of(o),
          slots_of(o)};
}

std::vector<stop_condition> stop_conditions_of(const training_options& o, const data_split* data) {
  if (o.stop_when.empty()) return {};
  const bool tested = !o.evaluate_every.never() && data;
  const auto on = !tested                       ? judged_on::nothing
                  : data->validation.size() > 0 ? judged_on::validation
                                                : judged_on::test;
  std::vector<stop_condition> conditions = parse_stop_conditions(o.stop_when, on);
  if (data) require_figures(conditions, *data);
  return conditions;
}

optimizer_options shard_optimizer(const training_options& o, const cure_spec& cure) {
  return cure.adapted(o.local_steps > 0 ? o.outer : o.optimizer);
}

} // namespace mailgrad
