#pragma once

#include <mailgrad/tensor/device.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What of a run decides how much memory its cards need.
struct memory_needs {
  std::vector<device> devices; ///< empty if workers of other processes brought them
  std::vector<device> places;  ///< of weights; empty: the host
  std::size_t shards = 1;
  std::string precision = "float32";
  bool is_replay = false; ///< which cannot take less than its run did
};

/// What to do about a run that ended for this reason, in one line that fits the run; empty unless memory of a
/// card was lacking, or pinned memory of the host.
std::string memory_advice(std::string_view why, const memory_needs& run);

} // namespace mailgrad
