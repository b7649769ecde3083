#include <mailgrad/engine/plan/computers_of_run.hpp>

#include <mailgrad/engine/plan/parameter_place.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

#include <cstdint>

namespace mailgrad {

std::vector<worker_computer> computers_of(const training_options& o) {
  std::vector<worker_computer> all;
  for (std::uint32_t w = 0; w < workers_of(o); ++w) all.push_back(computer_of(devices_of(o, w)));
  return all;
}

std::string updaters_in_words(const training_options& o) {
  std::string words;
  const std::string first = computer_in_words(place_of_shard(o, 0));
  bool differ = false;
  for (std::uint32_t s = 0; s < o.shards; ++s) {
    const std::string next = computer_in_words(place_of_shard(o, s));
    differ = differ || next != first;
    words += (s == 0 ? "" : ", ") + next;
  }
  return differ ? words : first;
}

} // namespace mailgrad
