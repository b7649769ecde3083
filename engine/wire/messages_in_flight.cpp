#include <mailgrad/engine/wire/messages_in_flight.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad {

namespace {

using flight_entry = std::pair<step_number, wire_message>;

} // namespace

std::shared_ptr<std::vector<std::byte>> messages_in_flight::memory(std::size_t bytes) {
  auto free = memory_.take();
  free->resize(bytes);
  return free;
}

void messages_in_flight::require_new(step_number step) const {
  if (std::ranges::find(all_, step, &flight_entry::first) != all_.end())
    throw std::invalid_argument(fmt::format("the gradient of step {} is in flight already", step.value));
}

void messages_in_flight::sent(step_number step, wire_message message) {
  require_new(step);
  all_.emplace_back(step, std::move(message));
}

wire_message messages_in_flight::settled(step_number step) {
  const auto found = std::ranges::find(all_, step, &flight_entry::first);
  if (found == all_.end())
    throw std::invalid_argument(fmt::format("no gradient of step {} is in flight", step.value));
  wire_message message = std::move(found->second);
  all_.erase(found);
  return message;
}

} // namespace mailgrad
