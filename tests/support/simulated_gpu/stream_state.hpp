#pragma once

#include "sanitizers.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mailgrad::simulated_gpu {

struct stream_state;

/// A point of a stream: what was recorded once.
struct event_point {
  stream_state* where = nullptr; ///< null once it has passed
  order_point order;
  std::chrono::steady_clock::time_point when;
};

struct event_state {
  std::uint32_t gpu = 0;
  bool timed = false;
  bool captured = false;              ///< its last record is a node of a graph
  std::uint64_t queries = 0;          ///< in vain since the last record
  std::shared_ptr<event_point> point; ///< of the last record; null: never recorded
};

/// What a stream runs: a body, or a point to record or to wait for.
struct work {
  std::function<std::optional<std::string>()> body = {}; ///< returns what went wrong
  std::shared_ptr<event_point> record = {}, wait = {};
};

/// What a stream has noted instead of running it.
struct capture {
  std::vector<work> nodes;
  std::thread::id by;
  std::optional<std::string> broken; ///< by what was not allowed
};

struct graph_state {
  std::vector<work> nodes;
  order_point order;
};

struct stream_state {
  std::uint32_t gpu = 0;
  std::uint64_t number = 0; ///< among all streams that were made
  std::deque<work> queued;
  std::optional<capture> captured; ///< while capturing
  order_of_its_own order;
  order_point submitted, done;
};

} // namespace mailgrad::simulated_gpu
