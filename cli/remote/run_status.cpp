#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/cli/live/live_state.hpp>
#include <mailgrad/cli/output/report_output.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace mailgrad {

namespace {
using json = nlohmann::ordered_json;
}

std::string status_of(const training_report& so_far, const std::vector<std::string>& waits) {
  json all = json::parse(state_event(so_far, waits));
  all["text"] = in_words(so_far);
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string status_in_words(const std::string& status) {
  try {
    const json all = json::parse(status);
    if (all.value("waiting", false))
      return fmt::format("waiting: {} have joined\n", all.at("attendance").get<std::string>());
    std::string text = all.at("text").get<std::string>();
    for (const json& wait : all.at("waits")) text += wait.get<std::string>() + '\n';
    return text;
  } catch (const json::exception& e) {
    throw std::runtime_error(
        fmt::format("status: expected that of a run, found another answer: {}", e.what()));
  }
}

} // namespace mailgrad
