#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mailgrad::simulated_gpu {

/// The memory of all GPUs, and pinned memory of the host.
///
/// Each allocation of a GPU lies between margins that nobody may touch: AddressSanitizer reports an access
/// at its own line, and damaged() finds a store without it. While nothing runs on a GPU, the host may not
/// touch its memory either.
class gpu_memory {
public:
  struct allocation {
    std::size_t bytes;
    std::uint32_t gpu;
    bool pinned;
  };

  void* allocate(std::uint32_t gpu, std::size_t bytes);
  void* allocate_pinned(std::size_t bytes);
  /// Whether there was such an allocation.
  bool release(void* address);

  /// The allocation that `address` lies in, or just behind; null if it is in none.
  const allocation* find(const void* address) const;
  /// Where the allocation around `address` ends.
  std::uintptr_t end_of(const void* address) const;

  std::size_t bytes_of(std::uint32_t gpu) const;

  /// Lets the kernels and copies of GPUs touch their memory, or forbids it to everybody.
  void open();
  void close();
  /// Names an allocation whose margin was written to, if there is one; it is reported once.
  std::optional<std::string> damaged();

private:
  const std::pair<const std::uintptr_t, allocation>* around(const void* address) const;
  std::map<std::uintptr_t, allocation> all_;
};

} // namespace mailgrad::simulated_gpu
