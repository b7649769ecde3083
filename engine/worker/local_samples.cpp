#include <mailgrad/engine/worker/local_samples.hpp>

#include <fmt/format.h>

#include <exception>
#include <stdexcept>

namespace mailgrad {

local_samples::local_samples(std::string name_or_path, parsed_limit limit)
    : name_(std::move(name_or_path)), limit_(limit) {}

local_samples::answer local_samples::find(const data_terms& wanted) {
  const std::lock_guard lock(mutex_);
  if (looked_for_ != wanted.sha256 || wanted.sha256.empty()) {
    last_ = {}; // the memory of the last ones is free before others are opened
    last_ = look_for(wanted);
    looked_for_ = wanted.sha256;
  }
  return last_;
}

local_samples::answer local_samples::look_for(const data_terms& wanted) {
  if (wanted.sha256.empty()) return {nullptr, "the server does not say which data it trains on"};
  try {
    auto samples = made_ ? made_ : opened_as(wanted);
    const std::string found = digest_of(*samples);
    if (found == wanted.sha256) return {std::move(samples), {}};
    return {nullptr, fmt::format("data '{}': expected the {} training samples of '{}', SHA-256 {}, found {} "
                                 "of SHA-256 {}",
                                 name_, wanted.samples, wanted.name, wanted.sha256, samples->size(), found)};
  } catch (const std::exception& e) {
    return {nullptr, fmt::format("data '{}': expected the training samples of '{}', SHA-256 {}, found none: "
                                 "{}",
                                 name_, wanted.name, wanted.sha256, e.what())};
  }
}

local_batches::local_batches(std::shared_ptr<const dataset> samples, std::size_t batch, std::size_t nonzeros)
    : samples_(std::move(samples)), batch_(batch), nonzeros_(nonzeros), batches_([this] {
        auto made = std::make_shared<mailgrad::batch>();
        shape_batch(*samples_, batch_, nonzeros_, *made);
        return made;
      }) {
  if (!samples_) throw std::invalid_argument("local_batches: there are no samples");
}

void local_batches::require_sensible(std::uint64_t number, std::span<const std::uint32_t> samples) const {
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

std::shared_ptr<const batch> local_batches::cut(std::uint64_t number, std::uint64_t epoch,
                                                std::span<const std::uint32_t> samples) {
  require_sensible(number, samples);
  const std::shared_ptr<batch> filled = batches_.take();
  fill_batch(*samples_, samples, *filled);
  filled->number = number;
  filled->epoch = epoch;
  return filled;
}

} // namespace mailgrad
