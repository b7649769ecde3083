#include <mailgrad/actors/remote/run_desk.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

namespace mailgrad::remote {

namespace {

constexpr std::chrono::milliseconds look{200}; ///< so often the owner is asked whether it goes on

} // namespace

void gathering::wait_for_all() {
  while (!server_.wait_for(look)) require_patience(server_.attendance() + " had joined");
}

std::vector<caf::actor> gathering::place_shards(shard_duties with) {
  if (options_.shard_hosts == 0) return {};
  std::vector<caf::actor> shards = server_.place_shards(std::move(with));
  while (!server_.wait_for_shards(look)) require_patience("the parameter hosts did not have their shards");
  return shards;
}

void gathering::require_patience(const std::string& what) const {
  if (given_up_)
    throw called_off(fmt::format("ended before the run had begun, as another process asked: {}", what));
  if (options_.go_on_waiting && !options_.go_on_waiting(server_.joined()))
    throw std::runtime_error("given up: " + what);
  if (options_.patience.count() == 0 || time_.now() - since_ < options_.patience) return;
  const std::string why =
      fmt::format("given up: {} within {} s", what, std::chrono::duration<double>(options_.patience).count());
  server_.note_failure(why); // for those who had come
  throw std::runtime_error(why);
}

namespace {

/// For which a watcher waits until the network says whom it heard when.
constexpr std::chrono::milliseconds time_to_look{250};

} // namespace

run_answer run_desk::answer_before_begin(const worker_server& server, const std::string& what) {
  if (what == "status")
    return {
        fmt::format(R"({{"waiting": true, "workers": {}, "joined": {}, "attendance": "{}", "members": {}}})",
                    workers_, server.joined(), server.attendance(), to_json(server.members(time_to_look)))};
  if (what != "stop")
    throw std::invalid_argument(
        fmt::format("the run has not begun: it waits for {} worker{}", workers_, workers_ == 1 ? "" : "s"));
  return {"the run will not begin", [this] { given_up_ = true; }};
}

run_answer run_desk::answer(const worker_server& server, const std::string& what,
                            const std::string& argument) {
  if (!begun_) return answer_before_begin(server, what);
  if (what == "status") return {run_.status ? run_.status() : "{}"};
  const bool has_workers = server.joined() > 0;
  if (what == "switch") {
    require_loaded(argument);
    run_.switch_policy(argument, "asked for from another process");
    return {"policy " + argument +
            (has_workers ? " begins when every worker has finished its step"
                         : " begins when a worker has come: the run has none")};
  }
  if (what == "stop") {
    const std::string why = argument.empty() ? "asked for from another process" : argument;
    return {has_workers ? "the run ends when every worker has finished its step"
                        : "the run ends now: it has no workers",
            [this, why] { run_.stop(why); }};
  }
  throw std::invalid_argument(fmt::format("expected status, switch or stop, found '{}'", what));
}

} // namespace mailgrad::remote
