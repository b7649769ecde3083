#include "current_gpu.hpp"
#include "gpu_machine.hpp"
#include "grid.hpp"
#include "last_error.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace mailgrad::simulated_gpu {

namespace {

bool is_mapped(std::uint64_t address) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  unsigned char present = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), page, &present) == 0;
}

/// Whether these 8 bytes can only be the address of something in this process. Addresses of programs, of
/// heaps and of stacks are larger than what two counts of 32 bits make.
bool is_address_of_host(std::uint64_t word) {
  return word >= 0x5500'0000'0000U && word < 0x8000'0000'0000U && is_mapped(word);
}

/// Why a kernel must not be given these arguments, if it must not.
std::optional<std::string> wrong_argument(const gpu_memory& memory, std::uint32_t gpu,
                                          const std::vector<argument_bytes>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= arguments[i].size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, arguments[i].data() + at, sizeof word);
      if (!is_address_of_host(word)) continue;
      const auto* const found = memory.find(reinterpret_cast<const void*>(word));
      if (found == nullptr)
        return fmt::format("argument {} holds, at byte {}, an address that is not of the GPU", i + 1, at);
      if (!found->pinned && found->gpu != gpu)
        return fmt::format("argument {} holds, at byte {}, an address of cuda:{}", i + 1, at, found->gpu);
    }
  return std::nullopt;
}

void queue_locked(gpu_machine& all, stream_state& s, kernel_launch launch,
                  const std::vector<argument_bytes>& arguments) {
  if (const auto why = refusal_of(launch)) return note_error(*why);
  if (!s.captured) ++all.counted.launches;
  if (const auto why = wrong_argument(all.memory, s.gpu, arguments))
    return all.fail(s.gpu, fmt::format("kernel {}: {}", launch.name, *why));
  const std::uint32_t gpu = s.gpu;
  all.queue(s, {.body = [&all, gpu, launch = std::move(launch)]() -> std::optional<std::string> {
              const std::uint64_t number = all.next_kernel(gpu);
              auto failure = run_grid(launch, all.set.order, number);
              if (const auto damage = all.memory.damaged(); damage && !failure)
                failure = fmt::format("kernel {} {}", launch.name, *damage);
              return failure;
            }});
}

} // namespace

void queue_kernel(void* stream, kernel_launch launch, const std::vector<argument_bytes>& arguments) {
  gpu_machine& all = gpu_machine::of_process();
  const std::lock_guard held(all.lock);
  const auto found = all.streams.find(stream);
  if (found == all.streams.end() || found->second->gpu != current_gpu)
    return note_error("invalid resource handle");
  stream_state& s = *found->second;
  if (!all.has_failed(s.gpu)) queue_locked(all, s, std::move(launch), arguments);
  if (const auto error = all.has_failed(s.gpu)) note_error(*error);
}

} // namespace mailgrad::simulated_gpu
