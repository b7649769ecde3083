#include <mailgrad/tensor/snapshot.hpp>

#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

std::span<const float> snapshot::on_host() const {
  if (!values_) return {};
  const std::span<const float> values = std::as_const(*values_).on_host<float>();
  if (!ready_.passed())
    throw device_error(world_errc::wrong_place, "a snapshot was to be read before it was written");
  return values;
}

} // namespace mailgrad
