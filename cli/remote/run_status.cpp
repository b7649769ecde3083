#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/cli/live/live_state.hpp>
#include <mailgrad/cli/output/report_output.hpp>
#include <mailgrad/cli/remote/members_table.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace mailgrad {

namespace {
using json = nlohmann::ordered_json;
}

namespace {

/// The figures of single pairs are the part of a report that grows by workers times shards.
void leave_pairs_out(json& report) {
  for (const char* figures : {"staleness", "time_split", "weight_gap"})
    report.at(figures)["per_shard"] = json::array();
}

/// And so are those that grow by workers.
void leave_workers_out(json& all) {
  json& report = all.at("report");
  for (const char* figures : {"wait_seconds", "batches"})
    if (report.at(figures).is_object()) report.at(figures)["per_worker"] = json::array();
  for (const char* list : {"devices", "stages"}) report[list] = json::array();
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

std::string status_of(const training_report& so_far, const std::vector<std::string>& waits,
                      const std::vector<run_member>& members) {
  json all = json::parse(state_event(so_far, shortened(waits)));
  if (so_far.exchanges.size() > most_pairs_told) leave_pairs_out(all.at("report"));
  if (so_far.workers > most_pairs_told) leave_workers_out(all);
  all["members"] = json::parse(to_json(members));
  all["text"] = in_words(so_far);
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
