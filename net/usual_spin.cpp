#include <mailgrad/net/usual_spin.hpp>

#include <sched.h>

namespace mailgrad::net {

std::chrono::microseconds usual_spin() noexcept {
  cpu_set_t mine;
  const bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
  return std::chrono::microseconds{known && CPU_COUNT(&mine) <= 2 ? 0 : 50};
}

} // namespace mailgrad::net
