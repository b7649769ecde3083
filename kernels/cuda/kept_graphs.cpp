#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>

#include <exception>

namespace mailgrad::cuda {
namespace {
std::atomic<std::uint64_t> as_graphs = 0, as_launches = 0;
} // namespace

void kept_graphs::run(void* stream, const key& k, const std::function<void()>& queue) {
  if (most_ == 0) return launch(queue);
  const auto found = std::ranges::find(known_, k, &known_key::what);
  if (found == known_.end()) {
    if (known_.size() == most_) known_.pop_back();
    known_.push_front({k});
    return launch(queue);
  }
  known_.splice(known_.begin(), known_, found);
  known_key& it = known_.front();
  if (it.refused) return launch(queue);
  const bool kernels_came = it.arrivals && *it.arrivals != count_chain_kernels().arrivals;
  if (!it.graph || kernels_came) {
    try {
      it.capture(stream, queue);
    } catch (const std::exception&) {
      if (!it.graph) {
        it.refused = true;
        return launch(queue); // throws as well, unless only a capture is at fault
      }
      it.arrivals.reset(); // the graph of before gives the same bits, and stays
    }
  }
  it.graph->launch(stream);
  ++as_graphs;
}

void kept_graphs::launch(const std::function<void()>& queue) {
  queue();
  ++as_launches;
}

queued_steps count_queued_steps() noexcept { return {as_graphs, as_launches}; }

/// Another thread may ask for a kernel meanwhile. Then this graph is captured once more than it had to be.
void kept_graphs::known_key::capture(void* stream, const std::function<void()>& queue) {
  const chain_kernel_counts before = count_chain_kernels();
  graph = std::make_unique<captured_graph>(stream, queue);
  const bool lacks_some = count_chain_kernels().too_early != before.too_early;
  arrivals = lacks_some ? std::optional(before.arrivals) : std::nullopt;
}

} // namespace mailgrad::cuda
