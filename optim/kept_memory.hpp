#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {

/// Writes `count` floats of `values`, from float `first` on. What lies on a GPU is copied to the host first:
/// the field is whole, and `values` may change, when an event has passed that the device queue `at` recorded
/// after this call. What lies on the host is not copied, and stays as it is until the field is in a file.
/// Errors  shape_error; device_error.
inline void hold_floats(archive& a, std::string_view name, const std::shared_ptr<const memory>& values,
                        std::size_t first, std::size_t count, device_queue& at) {
  if (!is_on_gpu(at)) return a.hold(name, values, values->on_host<float>().subspan(first, count));
  const auto copy = std::make_shared<memory>(naming_memory(
      [&] { return "a copy on the host of what a checkpoint has as '" + std::string(name) + "'"; },
      [&] { return at.lend_on_host(count * sizeof(float)); }));
  at.copy_to_host(*values, first * sizeof(float), *copy);
  a.hold(name, copy, copy->on_host<float>());
}

/// Writes or reads the floats of `values`, which lie where `at` allocates. They are copied; those on a GPU
/// as hold_floats() does.
/// Errors  archive_error: the field has another number of floats; device_error.
inline void keep_floats(archive& a, std::string_view name, memory& values, device_queue& at) {
  if (!is_on_gpu(at)) return a.floats(name, values.on_host<float>());
  const std::size_t count = values.bytes() / sizeof(float);
  if (!a.reads())
    return hold_floats(a, name, std::shared_ptr<const memory>(std::shared_ptr<void>(), &values), 0, count,
                       at);
  const archived_array& kept = a.array(name);
  if (kept.values.size() != count)
    throw archive_error(kept.path + ": expected " + std::to_string(count) + " floats, found " +
                        std::to_string(kept.values.size()));
  at.write(kept.values, values);
}

} // namespace mailgrad
