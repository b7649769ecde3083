#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/cli/live/live_state.hpp>
#include <mailgrad/cli/output/report_words.hpp>
#include <mailgrad/cli/remote/late_shards.hpp>
#include <mailgrad/cli/remote/members_table.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {
using json = nlohmann::ordered_json;
}

namespace {

/// Without the figures of single pairs, which grow by workers times shards, and those of single workers,
/// where these are too many. Left out before they are written, since writing them takes seconds. Their sums
/// stay.
training_report shortened(training_report r) {
  if (r.exchanges.size() > most_pairs_told) r.exchanges.clear();
  if (r.workers <= most_pairs_told) return r;
  r.worker_waits.clear();
  r.devices.clear();
  r.stages.clear();
  batch_origins all;
  for (const batch_origins& b : r.batches) {
    all.own += b.own;
    all.sent += b.sent;
    all.lost += b.lost;
    all.spared_bytes += b.spared_bytes;
  }
  if (!r.batches.empty()) r.batches = {all};
  return r;
}

/// What is left of those of single workers.
void leave_workers_out(json& all) {
  json& report = all.at("report");
  for (const char* figures : {"wait_seconds", "batches"})
    if (report.at(figures).is_object()) report.at(figures)["per_worker"] = json::array();
  all["expected"] = json::array();
}

/// The first ones, and how many more there are.
std::vector<std::string> shortened(std::vector<std::string> waits) {
  if (waits.size() <= most_waits_told) return waits;
  const std::size_t more = waits.size() - most_waits_told;
  waits.resize(most_waits_told);
  waits.push_back(fmt::format("and {} more {}", more, more == 1 ? "wait" : "waits"));
  return waits;
}

} // namespace

std::string status_of(training_report so_far, const std::vector<std::string>& waits) {
  const std::vector<run_member> members = std::exchange(so_far.members, {});
  json all = json::parse(state_event(shortened(so_far), shortened(waits)));
  if (so_far.workers > most_pairs_told) leave_workers_out(all);
  const std::vector<late_shards> late = late_of(so_far, members);
  if (!late.empty()) all["late"] = json::parse(to_json(late));
  all["report"].erase("members");
  all["members"] = json::parse(to_json(members));
  all["text"] = in_words(so_far) + in_words(late);
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string status_in_words(const std::string& status) {
  try {
    const json all = json::parse(status);
    const std::string members = all.contains("members") ? members_in_words(all.at("members")) : "";
    if (all.value("waiting", false))
      return fmt::format("waiting: {} have joined\n{}", all.at("attendance").get<std::string>(), members);
    std::string text = all.at("text").get<std::string>() + members;
    for (const json& wait : all.at("waits")) text += wait.get<std::string>() + '\n';
    return text;
  } catch (const json::exception& e) {
    throw std::runtime_error(
        fmt::format("status: expected that of a run, found another answer: {}", e.what()));
  }
}

} // namespace mailgrad
