#pragma once

#include <mailgrad/kernels/cuda/handles.hpp>

#include <list>

namespace mailgrad::cuda {

/// Graphs of work that comes to a stream again and again. Work that a key has come with twice is captured,
/// and is queued as one graph from then on. The key says all that may differ between two times: the addresses
/// that the work reads and writes. Graphs and launches give the same bits.
///
/// Work that was captured before the kernels of its chains had come is captured once more when they are
/// there. If that fails, the graph of before stays.
///
/// Work that cannot be captured, such as an operation of a user that asks the GPU for memory, is queued by
/// launches for good. A graph that makes room for another one may still run: the driver then frees it when it
/// has ended.
/// Errors   run: device_error, and what `queue` throws.
/// Threads  one caller at a time.
class kept_graphs {
public:
  static constexpr std::size_t most_kept = 16;
  using key = std::array<const void*, 3>;

  /// Keeps as many graphs, of the keys that came last; 0: all work is queued by launches.
  explicit kept_graphs(std::size_t most = most_kept) : most_(most) {}

  /// Queues on `stream` what `queue` queues there, and counts it among the steps of the process.
  void run(void* stream, const key& k, const std::function<void()>& queue);

private:
  static void launch(const std::function<void()>& queue);

  struct known_key {
    key what;
    std::unique_ptr<captured_graph> graph{}; ///< null until it came twice
    bool refused = false;                    ///< it could not be captured
    std::optional<std::uint64_t> arrivals{}; ///< of chain kernels at its capture, if it lacks some of them

    void capture(void* stream, const std::function<void()>& queue);
  };

  std::size_t most_;
  std::list<known_key> known_; ///< the last that came is the first
};

/// How kept graphs of this process have queued their work so far.
struct queued_steps {
  std::uint64_t graphs = 0;   ///< as one graph
  std::uint64_t launches = 0; ///< kernel by kernel
};
queued_steps count_queued_steps() noexcept;

} // namespace mailgrad::cuda
