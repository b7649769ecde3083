#pragma once

#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>

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

/// Whether the machine has a card. If not, says why, in the line that scripts/gpu-check reads.
inline bool has_card() {
  const cuda::runtime::found_cards found = cuda::runtime::find_cards();
  if (found.cards.empty()) std::printf("skipped: %s\n", found.why_none.c_str());
  return !found.cards.empty();
}

/// One kernel with its operands, ready to be queued again and again.
struct timed_kernel {
  std::string name;
  double bytes = 0;      ///< the least that has to be read and written
  double operations = 0; ///< multiplications and additions; 0 for a kernel that is bound by memory
  std::function<void(const stream&)> queue;
};

/// The duration of a kernel by events of the card, in microseconds: the median over rounds, each of several
/// launches one behind the other. They are replayed as a graph, since a processor takes longer to launch a
/// small kernel than the card takes to run it.
class card_timer {
public:
  explicit card_timer(cuda::card_lane& lane)
      : lane_(lane), stream_(std::get<cuda_stream>(lane.where()).stream),
        begin_(lane_card(), cuda::runtime::event_kind::timed),
        end_(lane_card(), cuda::runtime::event_kind::timed) {}

  std::vector<double> microseconds(const timed_kernel& k) {
    constexpr int rounds = 15;
    k.queue(lane_.where()); // loads the kernel's code, and lets cuBLAS choose
    cuda::wait_for_chain_kernels();
    const double once = round(launches(k, 3), 3);
    const int count = std::clamp(static_cast<int>(2000 / once), 3, 200);
    const cuda::captured_graph many = launches(k, count);
    std::vector<double> took;
    for (int i = 0; i < rounds; ++i) took.push_back(round(many, count));
    return took;
  }

private:
  std::uint32_t lane_card() const { return std::get<cuda_stream>(lane_.where()).device; }

  cuda::captured_graph launches(const timed_kernel& k, int count) {
    lane_.finish();
    return {stream_, [&] {
              for (int i = 0; i < count; ++i) k.queue(lane_.where());
            }};
  }
  double round(const cuda::captured_graph& g, int count) {
    cuda::runtime::record(begin_.get(), stream_);
    g.launch(stream_);
    cuda::runtime::record(end_.get(), stream_);
    lane_.finish();
    return 1000.0 * static_cast<double>(cuda::runtime::milliseconds_between(begin_.get(), end_.get())) /
           count;
  }

  cuda::card_lane& lane_;
  void* stream_;
  cuda::owned_event begin_, end_;
};

/// Arrays on the card that live as long as the program.
class card_arrays {
public:
  explicit card_arrays(cuda::card_lane& lane) : lane_(lane) {}

  /// `n` floats between -1 and 1, which no kernel finds easier than others.
  float* floats(std::size_t n);
  std::int32_t* labels(std::size_t n, std::int32_t classes);
  /// Room whose values are written before they are read.
  template <class T>
  T* room(std::size_t n) {
    kept_.push_back(std::make_unique<memory>(lane_.allocate(n * sizeof(T))));
    return kept_.back()->on<T>(lane_.where()).data();
  }
  void clear() {
    lane_.finish();
    kept_.clear();
  }

private:
  cuda::card_lane& lane_;
  std::vector<std::unique_ptr<memory>> kept_;
};

} // namespace mailgrad::bench
