#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

enum class device_kind : std::uint8_t { cpu, cuda };

/// A place where programs run: a core of this machine, or a lane of one of its GPUs. Programs in several
/// lanes of a card share it, as each lane has streams of its own.
struct device {
  device_kind kind = device_kind::cpu;
  std::uint32_t index = 0;
  std::uint32_t lane = 0; ///< of a card; 0 for a core

  friend bool operator==(const device&, const device&) = default;
};

/// "cpu:0", "cuda:0", and "cuda:0/1" for a lane that is not the card's first
std::string to_string(device d);

/// Reads "cpu:1", "cuda:0" or "cuda:0/1"; a bare kind means index 0.
///
/// Errors  device_error (no_such_device) for anything else.
device parse_device(std::string_view text);

/// Lists the devices that this build can run programs on: one for each core that this process may use.
std::vector<device> available_devices();

/// "cpu:0, cpu:1"
std::string available_in_words();

/// The first cores of this machine. With fewer of them than `count` some are named again, and share their
/// work.
std::vector<device> cpus(std::uint32_t count);
/// The first GPUs of this machine; a run refuses those that are not there.
std::vector<device> gpus(std::uint32_t count);

/// Errors  device_error unless `d` is among available_devices(); its one line lists the available devices.
void require_available(device d);

} // namespace mailgrad
