#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

enum class device_kind : std::uint8_t { cpu, cuda };

/// A place where programs run: a core of this machine or one of its GPUs.
struct device {
  device_kind kind = device_kind::cpu;
  std::uint32_t index = 0;

  friend bool operator==(const device&, const device&) = default;
};

/// "cpu:0"
std::string to_string(device d);

/// Reads "cpu:1" or "cuda:0"; a bare kind means index 0.
///
/// Errors  device_error (no_such_device) for anything else.
device parse_device(std::string_view text);

/// Lists the devices that this build can run programs on: one for each core that this process may use.
std::vector<device> available_devices();

/// Errors  device_error unless `d` is among available_devices(); its one line lists the available devices.
void require_available(device d);

} // namespace mailgrad
