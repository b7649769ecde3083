#include <mailgrad/actors/remote/address.hpp>

#include <fmt/format.h>

namespace mailgrad::remote {

std::string to_string(const actor_address& a) {
  switch (a.what) {
  case duty::nobody:
    return "nobody";
  case duty::host:
    return "the host of the process";
  case duty::coordinator:
    return "the coordinator";
  case duty::feeder:
    return "the feeder";
  case duty::tracker:
    return "the staleness tracker";
  case duty::shard:
    return fmt::format("shard {}", a.number);
  case duty::worker:
    return fmt::format("worker {}", a.number);
  case duty::recorder:
    return "the recorder";
  case duty::evaluator:
    return "the evaluator";
  }
  return "an actor that this build does not know";
}

caf::actor address_book::at(actor_address a) const {
  const auto found = handles_.find(a);
  return found == handles_.end() ? caf::actor() : found->second;
}

actor_address address_book::of(const caf::actor& handle) const {
  for (const auto& [a, known] : handles_)
    if (known == handle) return a;
  return {};
}

} // namespace mailgrad::remote
