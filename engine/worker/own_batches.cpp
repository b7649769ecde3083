#include <mailgrad/engine/worker/own_batches.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad {

own_batches::own_batches(std::shared_ptr<const dataset> samples, std::size_t batch, std::size_t nonzeros)
    : samples_(std::move(samples)), batch_(batch), nonzeros_(nonzeros), batches_([this] {
        auto made = std::make_shared<mailgrad::batch>();
        shape_batch(*samples_, batch_, nonzeros_, *made);
        return made;
      }) {
  if (!samples_) throw std::invalid_argument("own_batches: there are no samples");
}

void own_batches::require_sensible(std::uint64_t number, std::span<const std::uint32_t> samples) const {
  if (samples.empty() || samples.size() > batch_)
    throw std::invalid_argument(
        fmt::format("batch {}: expected 1 to {} samples, found {}", number, batch_, samples.size()));
  if (const std::uint32_t largest = *std::ranges::max_element(samples); largest >= samples_->size())
    throw std::invalid_argument(fmt::format("batch {}: expected samples of the {} that there are, found {}",
                                            number, samples_->size(), largest));
  if (const std::size_t entries = count_entries(*samples_, samples); entries > nonzeros_)
    throw std::invalid_argument(fmt::format(
        "batch {}: expected rows of at most {} entries together, found {}", number, nonzeros_, entries));
}

std::shared_ptr<const batch> own_batches::cut(std::uint64_t number, std::uint64_t epoch,
                                              std::span<const std::uint32_t> samples) {
  require_sensible(number, samples);
  const std::shared_ptr<batch> filled = batches_.take();
  fill_batch(*samples_, samples, *filled);
  filled->number = number;
  filled->epoch = epoch;
  return filled;
}

} // namespace mailgrad
