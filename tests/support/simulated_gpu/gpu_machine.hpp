#pragma once

#include "gpu_control.hpp"
#include "gpu_memory.hpp"
#include "stream_state.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad::simulated_gpu {

/// All that the simulated GPUs of this process are. Who uses it holds its lock.
class gpu_machine {
public:
  static gpu_machine& of_process();

  std::mutex lock;
  settings set = default_settings();
  counters counted;
  gpu_memory memory;
  std::map<void*, std::unique_ptr<stream_state>> streams;
  std::map<void*, std::unique_ptr<event_state>> events;
  std::uint64_t streams_made = 0;

  /// Every call of the runtime begins with it: throws what the call must report.
  void begin_call(const char* name, std::uint32_t gpu = 0);
  /// Every call for which the driver takes memory of its own: throws if there is none left.
  void begin_making(const char* name, std::uint32_t gpu);
  stream_state& stream(void* handle);
  event_state& event(void* handle);

  /// Queues work, and runs it if it is time.
  void queue(stream_state& s, work w);
  /// Whether nothing is queued on `s` that takes time: at most points that pass at once.
  static bool is_idle(const stream_state& s);
  /// Runs what was queued on `s`; the caller has waited for it then.
  void finish(stream_state& s);
  void finish_gpu(std::uint32_t gpu);
  /// Runs the next entry of the `drawn`-th stream, modulo their number, of those that may go on.
  bool run_one(std::uint64_t drawn);
  /// Runs the stream up to this point.
  void reach(const std::shared_ptr<event_point>& point);

  /// Notes what every later call on this GPU reports.
  void fail(std::uint32_t gpu, std::string why);
  /// What was noted for the GPU, if anything was.
  std::optional<std::string> has_failed(std::uint32_t gpu) const;
  /// The number of the kernel that runs, from 1; fails the GPU if a fault was asked for.
  std::uint64_t next_kernel(std::uint32_t gpu);
  void forget_errors();
  /// Throws where the caller must not wait.
  void require_may_wait(const char* name);

private:
  static bool may_go_on(const stream_state& s);
  void run_next(stream_state& s);
  void run_body(const stream_state& s, const work& w);

  std::map<std::uint32_t, std::string> errors_; ///< by GPU
  std::uint64_t calls_ = 0;
};

/// What a call of the runtime throws.
[[noreturn]] void refuse(const char* name, std::string_view why);

} // namespace mailgrad::simulated_gpu
