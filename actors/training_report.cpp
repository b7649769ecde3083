#include <mailgrad/actors/training_report.hpp>

#include <nlohmann/json.hpp>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

json known(const std::optional<double>& figure) { return figure ? json(*figure) : json(nullptr); }

json to_object(const gradient_ledger& l) {
  json discarded = json::object();
  for (const auto& [reason, count] : l.discarded) discarded[reason] = count;
  return {{"produced", l.produced},
          {"applied", l.applied},
          {"merged", l.merged},
          {"discarded", discarded},
          {"lost", l.lost}};
}

json to_object(const staleness_histogram& h) {
  json buckets = json::array();
  for (const auto& [gap, count] : h.buckets()) buckets.push_back({gap, count});
  const bool any = !h.empty();
  return {{"mean", any ? json(h.mean()) : json(nullptr)},
          {"p50", any ? json(h.quantile(0.5)) : json(nullptr)},
          {"p99", any ? json(h.quantile(0.99)) : json(nullptr)},
          {"max", any ? json(h.max()) : json(nullptr)},
          {"histogram", buckets}};
}

json to_array(const std::vector<policy_switch>& switches) {
  json list = json::array();
  for (const policy_switch& s : switches)
    list.push_back({{"step", s.step}, {"from", s.from}, {"to", s.to}, {"why", s.why}});
  return list;
}

/// Null without local steps.
json to_object_of_local_steps(const training_report& r) {
  if (r.local_steps == 0) return nullptr;
  return {{"steps", r.local_steps},
          {"outer_optimizer", r.outer_optimizer},
          {"outer_learning_rate", r.outer_learning_rate}};
}

} // namespace

std::string to_json(const training_report& r) {
  const json object = {
      {"policy", r.policy},
      {"devices", r.devices},
      {"data", r.data},
      {"optimizer", r.optimizer},
      {"learning_rate", r.learning_rate},
      {"batch", r.batch},
      {"shards", r.shards},
      {"ended", r.ended},
      {"why", r.why},
      {"steps", r.steps},
      {"samples", r.samples},
      {"updates", r.updates},
      {"wall_seconds", r.wall_seconds},
      {"steps_per_second", r.steps_per_second()},
      {"samples_per_second", r.samples_per_second()},
      {"final_loss", known(r.final_loss)},
      {"test_accuracy", known(r.test_accuracy)},
      {"ledger", to_object(r.ledger)},
      {"staleness", to_object(r.staleness)},
      {"wait_seconds", {{"barrier", r.waits.barrier}, {"bound", r.waits.bound}, {"feeder", r.waits.feeder}}},
      {"switches", to_array(r.switches)},
      {"local_steps", to_object_of_local_steps(r)},
      {"cure", {{"name", r.cure}, {"mean_step_factor", known(r.mean_step_factor)}}},
      {"parameters_sha256", r.parameters_sha256},
      {"seed", r.seed},
  };
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

} // namespace mailgrad
