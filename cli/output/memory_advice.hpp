#pragma once

#include <string_view>

namespace mailgrad {

/// What to do about a run that ended for this reason, in one line; empty unless memory of a card was lacking.
inline std::string_view memory_advice(std::string_view why) {
  if (why.find("out of memory: ") == std::string_view::npos) return {};
  return "to need less memory, take a smaller --batch or model, fewer lanes in --devices, or fewer --shards";
}

} // namespace mailgrad
