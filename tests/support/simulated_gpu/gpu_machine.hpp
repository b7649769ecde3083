#pragma once

#include "gpu_control.hpp"
#include "sanitizers.hpp"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace mailgrad::simulated_gpu {

/// The GPU that this thread calls and launches on; none until a call names one. CUDA would take the first
/// GPU then, and wake it, so such a call is refused. So is a launch on a stream of another GPU.
inline thread_local std::optional<std::uint32_t> current_gpu;

/// Notes what runtime::check_launch() will throw on this thread.
void note_error(std::string why);
std::optional<std::string> take_error();

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

struct stream_state;

/// A point of a stream: what was recorded once.
struct event_point {
  stream_state* where = nullptr; ///< null once it has passed
  order_point order;
  std::chrono::steady_clock::time_point when;
};

struct event_state {
  std::uint32_t gpu = 0;
  bool timed = false;
  bool captured = false;              ///< its last record is a node of a graph
  std::uint64_t queries = 0;          ///< in vain since the last record
  std::shared_ptr<event_point> point; ///< of the last record; null: never recorded
};

/// What a stream runs: a body, or a point to record or to wait for.
struct work {
  std::function<std::optional<std::string>()> body = {}; ///< returns what went wrong
  std::shared_ptr<event_point> record = {}, wait = {};
};

/// What a stream has noted instead of running it.
struct capture {
  std::vector<work> nodes;
  std::thread::id by;
  std::optional<std::string> broken; ///< by what was not allowed
};

struct graph_state {
  std::vector<work> nodes;
  order_point order;
};

struct stream_state {
  std::uint32_t gpu = 0;
  std::uint64_t number = 0; ///< among all streams that were made
  std::deque<work> queued;
  std::optional<capture> captured; ///< while capturing
  order_of_its_own order;
  order_point submitted, done;
};

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
  /// The stream of a call of that name, which begins.
  stream_state& stream(void* handle, const char* call);
  event_state& event(void* handle);

  /// Queues work, and runs it if it is time.
  void queue(stream_state& s, work w);
  /// Likewise what cannot go wrong.
  template <class Body>
  void queue_sure(stream_state& s, Body body) {
    queue(s, {.body = [body = std::move(body)]() -> std::optional<std::string> {
            body();
            return std::nullopt;
          }});
  }
  /// Whether nothing is queued on `s` that takes time: at most points that pass at once.
  static bool is_idle(const stream_state& s);
  /// Runs what was queued on `s`; the caller has waited for it then.
  void finish(stream_state& s);
  void finish_gpu(std::uint32_t gpu);
  void finish_all();
  /// Runs the next entry of the `drawn`-th stream, modulo their number, of those that may go on.
  bool run_one(std::uint64_t drawn);
  /// Runs the stream up to this point.
  void reach(const std::shared_ptr<event_point>& point);

  /// Notes what every later call on this GPU reports.
  void fail(std::uint32_t gpu, std::string why);
  /// What was noted for the GPU, if anything was.
  std::optional<std::string> has_failed(std::uint32_t gpu) const;
  /// Throws it.
  void report(const char* name, std::uint32_t gpu) const;
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

/// All GPUs of this process, with their lock.
class held_machine {
public:
  held_machine() : held_(gpu_machine::of_process().lock) {}
  gpu_machine& operator*() const { return gpu_machine::of_process(); }
  gpu_machine* operator->() const { return &gpu_machine::of_process(); }

private:
  std::lock_guard<std::mutex> held_;
};

/// What a call of the runtime throws.
[[noreturn]] void refuse(const char* name, std::string_view why);

} // namespace mailgrad::simulated_gpu
