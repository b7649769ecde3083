#include <mailgrad/cli/live/live_control.hpp>

#include <mailgrad/files/text_in_json.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t longest_policy = 1000;

http_response accepted(std::string what) { return {.status = 202, .body = std::move(what) + '\n'}; }

/// The policy that a request names; nothing if it names none.
std::optional<std::string> policy_in(const std::string& body) {
  const json asked = json::parse(whole_json(body), nullptr, false);
  if (!asked.is_object() || asked.size() != 1 || !asked.contains("policy") || !asked["policy"].is_string())
    return std::nullopt;
  std::string policy = asked["policy"];
  if (policy.empty() || policy.size() > longest_policy) return std::nullopt;
  return policy;
}

http_response switch_as_asked(training& run, const http_request& asked) {
  const auto policy = policy_in(asked.body);
  if (!policy) return {.status = 400, .body = "Expected {\"policy\": \"sync\"} or the like.\n"};
  require_loaded(*policy);
  run.switch_policy(*policy, "asked for on the live page");
  return accepted("The workers end their steps, then go on under '" + *policy + "'.");
}

} // namespace

void add_control(http_routes& to, training& run,
                 const std::function<std::optional<http_response>(const http_request&)>& refuses) {
  const auto add = [&](const char* path, auto change) {
    to.add("POST", path, [refuses, change = std::move(change)](const http_request& asked) {
      if (auto refusal = refuses(asked)) return std::move(*refusal);
      try {
        return change(asked);
      } catch (const std::invalid_argument& e) {
        return http_response{.status = 409, .body = std::string(e.what()) + '\n'};
      }
    });
  };
  add("/switch", [&run](const http_request& asked) { return switch_as_asked(run, asked); });
  add("/checkpoint", [&run](const http_request&) {
    run.take_checkpoint();
    return accepted("A checkpoint is taken as soon as possible.");
  });
  add("/stop", [&run](const http_request&) {
    run.stop("stopped on the live page");
    return accepted("The run stops: steps that have begun are finished.");
  });
}

} // namespace mailgrad
