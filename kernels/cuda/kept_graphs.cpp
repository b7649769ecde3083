#include <mailgrad/kernels/cuda/kept_graphs.hpp>

#include <algorithm>
#include <exception>

namespace mailgrad::cuda {

void kept_graphs::run(void* stream, const key& k, const std::function<void()>& queue) {
  if (most_ == 0) return queue();
  const auto found = std::ranges::find(known_, k, &known_key::what);
  if (found == known_.end()) {
    if (known_.size() == most_) known_.pop_back();
    known_.push_front({k});
    return queue();
  }
  known_.splice(known_.begin(), known_, found);
  known_key& it = known_.front();
  if (it.refused) return queue();
  if (!it.graph) {
    try {
      it.graph = std::make_unique<captured_graph>(stream, queue);
    } catch (const std::exception&) {
      it.refused = true;
      return queue(); // throws as well, unless only a capture is at fault
    }
  }
  it.graph->launch(stream);
}

} // namespace mailgrad::cuda
