#include <mailgrad/actors/run/run_home.hpp>

#include <mailgrad/actors/protocol/register_messages.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>

#include <algorithm>
#include <cstdint>
#include <set>

namespace mailgrad {

run_home::config::config(std::size_t threads) {
  register_messages(*this);
  set(caf_compat::option("scheduler.max-threads"), threads);
  share_work_awake(*this);
}

run_home::run_home(const std::vector<device>& devices) : config_(thread_count(devices)) {}

std::size_t thread_count(const std::vector<device>& devices) {
  std::set<std::uint32_t> cores;
  for (const device d : devices)
    if (d.kind == device_kind::cpu) cores.insert(d.index);
  return std::max<std::size_t>(1, cores.size());
}

} // namespace mailgrad
