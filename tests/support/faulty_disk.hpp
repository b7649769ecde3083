#pragma once

#include <cstdint>
#include <functional>

namespace mailgrad::testing {

/// What goes wrong with the disk of this process while it is armed. The program must be linked with
/// faulty_disk.cpp, whose functions take the place of those of the C library by which files are written,
/// synced, renamed, linked and removed. So the code under test needs no seam, and knows nothing of it.
///
/// Threads one.
struct faulty_disk {
  bool armed = false; ///< what the test itself does to files goes well
  bool full = false;  ///< nothing can be written: ENOSPC
  bool torn = false;  ///< of the first write to a full disk, half of the bytes fit
  /// Calls that change files until crashed() is called: before the last of them, or in its middle if it
  /// writes. 0: never.
  std::uint64_t calls_left = 0;
  std::function<void()> crashed{};
  std::uint64_t refused = 0; ///< calls that have failed

  /// That of this process.
  static faulty_disk& here();
};

} // namespace mailgrad::testing
