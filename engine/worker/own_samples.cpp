#include <mailgrad/engine/worker/own_samples.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/data/samples_digest.hpp>

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>

namespace mailgrad {

own_samples::own_samples(std::string name_or_path, parsed_limit limit)
    : name_(std::move(name_or_path)), limit_(limit) {}

own_samples::own_samples(std::string name, std::shared_ptr<const dataset> made)
    : name_(std::move(name)), made_(std::move(made)) {
  if (!made_) throw std::invalid_argument("own_samples: there are no samples");
}

own_samples::answer own_samples::find(const data_terms& wanted) {
  const std::lock_guard lock(mutex_);
  if (looked_for_ != wanted.sha256 || wanted.sha256.empty()) {
    last_ = {}; // the memory of the last ones is free before others are opened
    last_ = look_for(wanted);
    looked_for_ = wanted.sha256;
  }
  return last_;
}

own_samples::answer own_samples::look_for(const data_terms& wanted) {
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

/// Only what is trained on stays in memory.
std::shared_ptr<const dataset> own_samples::opened_as(const data_terms& wanted) const {
  open_options options = wanted.source ? wanted.source->options : open_options{};
  options.limit = limit_;
  return std::make_shared<const dataset>(std::move(open_data(name_, options).train));
}

} // namespace mailgrad
