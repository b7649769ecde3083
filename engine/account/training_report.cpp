#include <mailgrad/engine/account/training_report.hpp>

#include <mailgrad/data/data_reading.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

json known(const std::optional<double>& figure) { return figure ? json(*figure) : json(nullptr); }

json known(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json to_object(const gradient_ledger& l) {
  json discarded = json::object();
  for (const auto& [reason, count] : l.discarded) discarded[reason] = count;
  return {{"produced", l.produced},
          {"applied", l.applied},
          {"merged", l.merged},
          {"discarded", discarded},
          {"lost", l.lost}};
}

json to_list(const staleness_histogram& h) {
  json buckets = json::array();
  for (const auto& [gap, count] : h.buckets()) buckets.push_back({gap, count});
  return buckets;
}

json to_object(const staleness_histogram& h) {
  const bool any = !h.empty();
  return {{"mean", any ? json(h.mean()) : json(nullptr)},
          {"p50", any ? json(h.quantile(0.5)) : json(nullptr)},
          {"p99", any ? json(h.quantile(0.99)) : json(nullptr)},
          {"max", any ? json(h.max()) : json(nullptr)},
          {"histogram", to_list(h)}};
}

json to_object(const duration_stat& t) {
  if (t.empty()) return nullptr;
  return {{"seconds", in_seconds(t.total())},
          {"mean", t.mean_seconds()},
          {"max", in_seconds(t.longest())},
          {"count", t.count()}};
}

json to_object(const time_split& t) {
  return {{"read", to_object(t.read)},
          {"compute", to_object(t.compute)},
          {"wire", to_object(t.wire)},
          {"mailbox", to_object(t.mailbox)},
          {"apply", to_object(t.apply)}};
}

json to_object(const running_stat& t) {
  const auto figure = [&](double x) { return t.empty() ? json(nullptr) : json(x); };
  return {{"count", t.count()},
          {"mean", figure(t.mean())},
          {"min", figure(t.least())},
          {"max", figure(t.greatest())}};
}

/// `figures` of all exchanges together, and below it those of each.
template <class Figures>
json with_each(json figures, const training_report& r, Figures exchange_figures::*part) {
  json each = json::array();
  for (const exchange_figures& x : r.exchanges) {
    json one = {{"shard", x.shard ? json(*x.shard) : json(nullptr)}, {"worker", x.worker}};
    one.update(to_object(x.*part));
    each.push_back(std::move(one));
  }
  figures["per_shard"] = std::move(each);
  return figures;
}

json staleness_of_run(const training_report& r) {
  json figures = to_object(r.staleness);
  figures["discarded"] = to_list(r.discarded_staleness);
  return figures;
}

json to_object(const wait_seconds& w) {
  return {{"barrier", w.barrier}, {"bound", w.bound}, {"feeder", w.feeder}};
}

json waits_of_run(const training_report& r) {
  json waits = to_object(r.waits);
  json each = json::array();
  for (std::size_t worker = 0; worker < r.worker_waits.size(); ++worker) {
    json one = {{"worker", worker}};
    one.update(to_object(r.worker_waits[worker]));
    each.push_back(std::move(one));
  }
  waits["per_worker"] = std::move(each);
  return waits;
}

json to_object(const std::optional<prescribed_delays>& d) {
  if (!d) return nullptr;
  const auto given = [](const std::string& formula) { return formula.empty() ? json() : json(formula); };
  return {{"law", d->law},
          {"seed", d->seed},
          {"virtual_time", d->virtual_time},
          {"interrupts", d->interrupts},
          {"latency", given(d->latency)},
          {"bandwidth", given(d->bandwidth)}};
}

json to_object(const batch_origins& b) {
  return {{"own", b.own}, {"sent", b.sent}, {"lost", b.lost}, {"spared_bytes", b.spared_bytes}};
}

/// Null in one process, where nothing is sent.
json batches_of_run(const training_report& r) {
  if (!r.wire) return nullptr;
  batch_origins all;
  json each = json::array();
  for (std::size_t worker = 0; worker < r.batches.size(); ++worker) {
    const batch_origins& b = r.batches[worker];
    json one = {{"worker", worker}};
    one.update(to_object(b));
    each.push_back(std::move(one));
    all = {all.own + b.own, all.sent + b.sent, all.lost + b.lost, all.spared_bytes + b.spared_bytes};
  }
  json batches = to_object(all);
  batches["per_worker"] = std::move(each);
  return batches;
}

/// Null in one process, whose workers are threads.
json members_of_run(const training_report& r) {
  return r.members.empty() ? json() : json::parse(to_json(r.members));
}

json to_array(const std::vector<policy_switch>& switches) {
  json list = json::array();
  for (const policy_switch& s : switches)
    list.push_back(
        {{"step", s.step}, {"time_s", known(s.time_s)}, {"from", s.from}, {"to", s.to}, {"why", s.why}});
  return list;
}

json to_array(const std::vector<stage_figures>& stages, double wall_seconds) {
  json list = json::array();
  for (const stage_figures& p : stages)
    list.push_back({{"worker", p.worker},
                    {"device", p.device},
                    {"busy_seconds", p.busy_seconds},
                    {"busy_share", wall_seconds > 0 ? json(p.busy_seconds / wall_seconds) : json(nullptr)}});
  return list;
}

json to_array(const std::vector<metrics_line>& curve) {
  json list = json::array();
  for (const metrics_line& x : curve) list.push_back(json::parse(to_json(x)));
  return list;
}

/// Null without local steps.
json to_object_of_local_steps(const training_report& r) {
  if (r.local_steps == 0) return nullptr;
  return {{"steps", r.local_steps},
          {"outer_optimizer", r.outer_optimizer},
          {"outer_learning_rate", r.outer_learning_rate}};
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

json to_object(const std::optional<tests_made>& x) {
  if (!x) return {};
  return {{"device", x->device},
          {"why_on_host", text_or_null(x->why_on_host)},
          {"text_on_host", text_or_null(x->text_on_host)}};
}

json to_object(const std::optional<card_figures>& x) {
  if (!x) return {};
  return {{"graph_steps", x->graph_steps},
          {"launched_steps", x->launched_steps},
          {"generated_kernels", x->generated_kernels},
          {"why_interpreted", text_or_null(x->why_interpreted)}};
}

json to_object(const std::optional<resumed_figures>& x) {
  if (!x) return {};
  return {{"from", x->from},
          {"steps", x->steps},
          {"steps_before", x->steps_before},
          {"products_before", text_or_null(x->products_before)}};
}

json to_object(const std::optional<shard_ledger>& x) {
  if (!x) return {};
  json all = to_object(x->counts);
  all["shard"] = x->shard;
  return all;
}

json to_object(const std::optional<best_test>& x) {
  if (!x) return {};
  return {{"steps", x->steps},
          {"loss", x->loss},
          {"samples", x->held_out ? "validation" : "test"},
          {"weights_sha256", x->weights_sha256},
          {"why_last_untested", text_or_null(x->why_last_untested)}};
}

json to_array(const std::vector<sampled_figures>& sampled) {
  json all = json::array();
  for (const sampled_figures& x : sampled)
    all.push_back({{"shard", x.shard},
                   {"worker", x.worker},
                   {"step", x.step},
                   {"lag", x.lag},
                   {"gap", x.gap},
                   {"cosine", known(x.cosine)}});
  return all;
}

json to_object(const std::optional<checkpoint_account>& x) {
  if (!x) return {};
  return {{"written", x->written}, {"failed", x->failed},
          {"skipped", x->skipped}, {"bytes", x->bytes},
          {"seconds", x->seconds}, {"held_seconds", x->held_seconds},
          {"last", x->last},       {"last_steps", x->steps},
          {"failure", x->failure}, {"removed_for_room", x->removed_for_room}};
}

/// Null where the data are no table.
json to_object(const std::optional<table_reading>& t) {
  if (!t) return {};
  const char* const became = t->became == missing_values::drop   ? "left out"
                             : t->became == missing_values::mean ? "mean"
                                                                 : "refused";
  return {
      {"encoding", t->encoding},
      {"delimiter", std::string(1, t->delimiter)},
      {"decimal", text_or_null(t->decimal)},
      {"thousands", text_or_null(t->thousands)},
      {"header", t->header},
      {"comments", t->comments},
      {"columns", {{"numbers", t->numbers}, {"categories", t->categories}, {"left_out", t->left_out}}},
      {"label", {{"column", t->label_column}, {"name", text_or_null(t->label_name)}, {"why", t->label_why}}},
      {"missing", {{"values", t->missing}, {"rows_left_out", t->dropped}, {"became", became}}}};
}

json to_object(const std::optional<class_size>& c) {
  if (!c) return {};
  return {{"name", c->name}, {"samples", c->samples}};
}

json to_object(const data_reading& r) {
  return {{"format", r.format},
          {"table", to_object(r.table)},
          {"dims", std::vector<std::size_t>(r.dims.begin(), r.dims.end())},
          {"inputs", r.inputs},
          {"task", {{"learns", r.task == label_kind::classes ? "classes" : "numbers"}, {"why", r.task_why}}},
          {"samples", {{"train", r.train}, {"validation", r.validation}, {"test", r.test}}},
          {"test_part", r.test_why},
          {"classes",
           {{"count", r.classes}, {"smallest", to_object(r.smallest)}, {"largest", to_object(r.largest)}}}};
}

json to_object(const std::optional<recording_account>& x) {
  if (!x) return {};
  const bool whole = x->failure.empty();
  return {{"file", x->file},       {"bytes", x->bytes},
          {"failure", x->failure}, {"seconds", whole ? json() : json(x->seconds)},
          {"kept", x->kept},       {"kept_bytes", x->kept_bytes}};
}

} // namespace

void training_report::add_reason(std::string_view clause) {
  if (!why.empty()) why += "; ";
  why += clause;
}

bool training_report::knows_ledger() const {
  const auto told = [](const late_figures& x) { return x.seconds_old.has_value(); };
  return late.empty() || late.size() < shards || std::ranges::any_of(late, told);
}

std::string to_json(const training_report& r) {
  const json object = {
      {"version", r.origin.version},
      {"commit", known(r.origin.commit)},
      {"compiler", r.origin.compiler},
      {"date", known(r.origin.date)},
      {"host", known(r.origin.host)},
      {"processor", known(r.origin.processor)},
      {"command", r.command},
      {"model", r.model},
      {"span", r.span},
      {"weights", r.weights},
      {"policy", r.policy},
      {"present_policy", r.present_policy},
      {"wire", r.wire ? json(*r.wire) : json()},
      {"devices", r.devices},
      {"precision", r.precision},
      {"workers", r.workers},
      {"micro_batches", r.micro_batches},
      {"stages", to_array(r.stages, r.wall_seconds)},
      {"data", r.data},
      {"reading", r.reading ? to_object(*r.reading) : json()},
      {"optimizer", r.optimizer},
      {"learning_rate", r.learning_rate},
      {"batch", r.batch},
      {"shards", r.shards},
      {"ended", r.ended},
      {"why", r.why},
      {"lost_shards", r.lost_shards},
      {"enough", r.enough},
      {"steps", r.steps},
      {"samples", r.samples},
      {"epochs", r.epochs},
      {"updates", r.knows_ledger() ? json(r.updates) : json()},
      {"wall_seconds", r.wall_seconds},
      {"steps_per_second", r.steps_per_second()},
      {"samples_per_second", r.samples_per_second()},
      {"final_loss", known(r.final_loss)},
      {"test_loss", known(r.test_loss)},
      {"test_accuracy", known(r.test_accuracy)},
      {"test_rmse", known(r.test_rmse)},
      {"validation_loss", known(r.validation_loss)},
      {"validation_accuracy", known(r.validation_accuracy)},
      {"validation_rmse", known(r.validation_rmse)},
      {"best", to_object(r.best)},
      {"tested", to_object(r.tested)},
      {"cards", to_object(r.cards)},
      {"sample", r.sample ? json(*r.sample) : json()},
      {"ledger", r.knows_ledger() ? to_object(r.ledger) : json()},
      {"kept_ledger", to_object(r.kept_ledger)},
      {"staleness", with_each(staleness_of_run(r), r, &exchange_figures::gaps)},
      {"time_split", with_each(to_object(r.times), r, &exchange_figures::times)},
      {"weight_gap", with_each(to_object(r.weight_gap), r, &exchange_figures::weight_gap)},
      {"gradient_cosine", to_object(r.gradient_cosine)},
      {"sampled", to_array(r.sampled)},
      {"wait_seconds", waits_of_run(r)},
      {"batches", batches_of_run(r)},
      {"switches", to_array(r.switches)},
      {"members", members_of_run(r)},
      {"resumed", to_object(r.resumed)},
      {"checkpoints", to_object(r.checkpoints)},
      {"recording", to_object(r.recording)},
      {"curve", to_array(r.curve)},
      {"evaluations",
       {{"count", r.evaluations.count},
        {"seconds", r.evaluations.seconds},
        {"why_on_host", text_or_null(r.evaluations.why_on_host)},
        {"left_out", r.evaluations.left_out},
        {"why_left_out", text_or_null(r.evaluations.why_left_out)}}},
      {"local_steps", to_object_of_local_steps(r)},
      {"delays", to_object(r.delays)},
      {"cure", {{"name", r.cure}, {"mean_step_factor", known(r.mean_step_factor)}}},
      {"parameters_sha256", r.parameters_sha256},
      {"seed", r.seed},
  };
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

std::string staleness_csv(const training_report& r) {
  std::string text = "shard,worker,gap,count\n";
  for (const exchange_figures& x : r.exchanges) {
    const std::string whose = (x.shard ? std::to_string(*x.shard) : "") + ',' + std::to_string(x.worker);
    for (const auto& [gap, count] : x.gaps.buckets())
      text.append(whose + ',' + std::to_string(gap) + ',' + std::to_string(count) + '\n');
  }
  return text;
}

staleness_histogram staleness_of(const training_report& r, std::uint32_t worker) {
  staleness_histogram all;
  for (const exchange_figures& x : r.exchanges)
    if (x.worker == worker) all.merge(x.gaps);
  return all;
}

} // namespace mailgrad
