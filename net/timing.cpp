#include <mailgrad/net/timing.hpp>

#include <mailgrad/tensor/device.hpp>

namespace mailgrad::net {

std::chrono::microseconds usual_spin() {
  return std::chrono::microseconds{cores_of_process().count() <= 2 ? 0 : 50};
}

} // namespace mailgrad::net
