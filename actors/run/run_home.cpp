#include <mailgrad/actors/run/run_home.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

namespace mailgrad {

run_home::config::config(std::size_t threads) {
  register_messages(*this);
  set(caf_compat::option("scheduler.max-threads"), threads);
  share_work_awake(*this);
}

run_home::run_home(const std::vector<device>& devices) : config_(thread_count(devices)) {}

} // namespace mailgrad
