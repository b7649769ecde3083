#include <mailgrad/actors/remote/run_desk.hpp>

#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/engine/account/run_member.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

namespace mailgrad::remote {

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
