#pragma once

#include <mailgrad/tests/actors/runs/assembled_run.hpp>

#include <mailgrad/engine/worker/gpu_replica.hpp>

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace mailgrad::testing {

/// A watch that asks until the event has passed, when it is given it. The end of a step is then a message
/// that is on its way at once.
class prompt_watch final : public event_watch {
public:
  void when_passed(device_event m, notice tell) override {
    std::exception_ptr why;
    try {
      while (!m.passed()) {
      }
    } catch (...) {
      why = std::current_exception();
    }
    tell(why);
  }
};

/// The same run with each worker on a stream of the GPU.
inline assembly on_gpu(assembly a, const std::shared_ptr<const data_split>& data,
                       const std::shared_ptr<event_watch>& watch = std::make_shared<prompt_watch>()) {
  const run_plan plan = plan_of(a, data);
  const std::uint32_t workers = a.workers;
  a.runner = [plan, watch, workers](rank r, const std::shared_ptr<step_runner>&) {
    model_request request = plan.request_of(r.value % workers);
    request.devices = {{device_kind::cuda, 0, r.value}};
    return std::make_shared<gpu_replica>(plan.model, request, plan.replica_layout, watch);
  };
  return a;
}

} // namespace mailgrad::testing
