#include <mailgrad/tensor/fail_with.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {

std::size_t memory::bytes() const noexcept {
  return std::visit([](const auto& place) { return place.bytes(); }, place_);
}

void* memory::host_address() const {
  if (const auto* host = std::get_if<block>(&place_)) return const_cast<std::byte*>(host->data());
  fail_with(world_errc::wrong_place, "memory of {} cannot be read on the host; copy it there first",
            to_string(std::get<device_block>(place_).where()));
}

void* memory::address_for(const stream& s) const {
  const auto* gpu = std::get_if<cuda_stream>(&s);
  if (!gpu) return host_address();
  const auto* there = std::get_if<device_block>(&place_);
  const device reader{device_kind::cuda, gpu->device};
  if (there && there->where() == reader) return there->address();
  fail_with(world_errc::wrong_place, "memory of {} cannot be read by a kernel on {}",
            there ? to_string(there->where()) : "the host", to_string(reader));
}

std::span<const float> snapshot::on_host() const {
  if (!values_) return {};
  const std::span<const float> values = std::as_const(*values_).on_host<float>();
  if (!ready_.passed())
    throw device_error(world_errc::wrong_place, "a snapshot was to be read before it was written");
  return values;
}

} // namespace mailgrad
