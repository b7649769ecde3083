#include <mailgrad/actors/run/run_home.hpp>

#include <mailgrad/actors/protocol/register_messages.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/net/usual_spin.hpp>

namespace mailgrad {

std::chrono::nanoseconds patience_of_threads(run_reach reach) noexcept {
  return reach == run_reach::this_process ? std::chrono::milliseconds{2} : net::usual_spin();
}

run_home::config::config(std::size_t threads, run_reach reach) {
  register_messages(*this);
  set(caf_compat::option("scheduler.max-threads"), threads);
  share_work_awake(*this, patience_of_threads(reach));
}

run_home::run_home(const std::vector<device>& devices, run_reach reach)
    : config_(thread_count(devices), reach) {}

} // namespace mailgrad
