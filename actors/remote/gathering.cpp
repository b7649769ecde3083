#include <mailgrad/actors/remote/gathering.hpp>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

namespace mailgrad::remote {

namespace {

constexpr std::chrono::milliseconds look{200}; ///< so often the owner is asked whether it goes on

} // namespace

void gathering::wait_for_all() {
  while (!server_.wait_for(look)) require_patience(server_.attendance() + " had joined");
}

std::vector<caf::actor> gathering::place_shards(shard_duties with) {
  if (options_.shard_hosts == 0) return {};
  std::vector<caf::actor> shards = server_.place_shards(std::move(with));
  while (!server_.wait_for_shards(look)) require_patience("the parameter hosts did not have their shards");
  return shards;
}

void gathering::require_patience(const std::string& what) const {
  if (given_up_)
    throw called_off(fmt::format("ended before the run had begun, as another process asked: {}", what));
  if (options_.go_on_waiting && !options_.go_on_waiting(server_.joined()))
    throw std::runtime_error("given up: " + what);
  if (options_.patience.count() == 0 || time_.now() - since_ < options_.patience) return;
  const std::string why =
      fmt::format("given up: {} within {} s", what, std::chrono::duration<double>(options_.patience).count());
  server_.note_failure(why); // for those who had come
  throw std::runtime_error(why);
}

} // namespace mailgrad::remote
