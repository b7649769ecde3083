#pragma once

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>

#include "../measuring.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::bench {

/// Whether the machine has a GPU. If not, says why, in the line that scripts/gpu-check reads.
inline bool has_gpu() {
  const cuda::runtime::found_gpus found = cuda::runtime::find_gpus();
  if (found.gpus.empty()) std::printf("skipped: %s\n", found.why_none.c_str());
  return !found.gpus.empty();
}

/// One kernel with its operands, ready to be queued again and again.
struct timed_kernel {
  std::string name;
  double bytes = 0;      ///< the least that has to be read and written
  double operations = 0; ///< multiplications and additions; 0 for a kernel that is bound by memory
  std::function<void(const stream&)> queue;
};

/// The duration of a kernel by events of the GPU, in microseconds: the median over rounds, each of several
/// launches one behind the other. They are replayed as a graph, since a processor takes longer to launch a
/// small kernel than the GPU takes to run it.
class gpu_timer {
public:
  explicit gpu_timer(cuda::gpu_queue& queue)
      : queue_(queue), stream_(std::get<cuda_stream>(queue.where()).stream),
        begin_(queue_gpu(), cuda::runtime::event_kind::timed),
        end_(queue_gpu(), cuda::runtime::event_kind::timed) {}

  std::vector<double> microseconds(const timed_kernel& k) {
    constexpr int rounds = 15;
    k.queue(queue_.where()); // loads the kernel's code, and lets cuBLAS choose
    cuda::wait_for_chain_kernels();
    const double once = round(launches(k, 3), 3);
    const int count = std::clamp(static_cast<int>(2000 / once), 3, 200);
    const cuda::captured_graph many = launches(k, count);
    std::vector<double> took;
    for (int i = 0; i < rounds; ++i) took.push_back(round(many, count));
    return took;
  }

private:
  std::uint32_t queue_gpu() const { return std::get<cuda_stream>(queue_.where()).device; }

  cuda::captured_graph launches(const timed_kernel& k, int count) {
    queue_.finish();
    return {stream_, [&] {
              for (int i = 0; i < count; ++i) k.queue(queue_.where());
            }};
  }
  double round(const cuda::captured_graph& g, int count) {
    cuda::runtime::record(begin_.get(), stream_);
    g.launch(stream_);
    cuda::runtime::record(end_.get(), stream_);
    queue_.finish();
    return 1000.0 * static_cast<double>(cuda::runtime::milliseconds_between(begin_.get(), end_.get())) /
           count;
  }

  cuda::gpu_queue& queue_;
  void* stream_;
  cuda::owned_event begin_, end_;
};

/// Arrays on the GPU that live as long as the program.
class gpu_arrays {
public:
  explicit gpu_arrays(cuda::gpu_queue& queue) : queue_(queue) {}

  /// `n` floats between -1 and 1, which no kernel finds easier than others.
  float* floats(std::size_t n);
  std::int32_t* labels(std::size_t n, std::int32_t classes);
  /// A buffer whose values are written before they are read.
  template <class T>
  T* buffer(std::size_t n) {
    kept_.push_back(std::make_unique<memory>(queue_.allocate(n * sizeof(T))));
    return kept_.back()->on<T>(queue_.where()).data();
  }
  void clear() {
    queue_.finish();
    kept_.clear();
  }

private:
  cuda::gpu_queue& queue_;
  std::vector<std::unique_ptr<memory>> kept_;
};

} // namespace mailgrad::bench
