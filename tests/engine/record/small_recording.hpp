#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

// A recording of three steps, and why one like it is refused.

namespace mailgrad::testing {

inline constexpr std::int64_t late = std::int64_t{1} << 62;

inline recording_header small_header() {
  return {2, 2, {{"batch", "4"}, {"policy", "async"}}, {"--batch=4", "--policy=async"}};
}

/// Worker 0 makes one step, worker 1 two; both shards take them, each in an order of its own.
inline std::vector<std::vector<order_entry>> small_entries() {
  using kind = order_entry::kind;
  return {{{kind::joined, {0}},
           {kind::joined, {1}},
           {kind::gradient, {1}, 1, 0, 7},
           {kind::gradient, {0}, 1, 0, late},
           {kind::switched, {}},
           {kind::gradient, {1}, 2, 0, 9},
           {kind::left, {0}},
           {kind::left, {1}}},
          {{kind::joined, {1}},
           {kind::joined, {0}},
           {kind::gradient, {0}, 1, 0, 5},
           {kind::gradient, {1}, 1, 0, 6},
           {kind::switched, {}},
           {kind::gradient, {1}, 2, 0, 8},
           {kind::left, {1}},
           {kind::left, {0}}}};
}

inline recording_end small_end() {
  return {"completed", "", {}, {{"sync", "planned for step 2", {1, 1}, {1, 1}}}, std::string(64, 'a')};
}

inline constexpr recorded_deal small_deals[] = {{{0}, 0}, {{1}, 1}, {{1}, (1ULL << 48) - 1}};

/// What a writer writes; `end` may be left out.
inline std::string written(const recording_header& header,
                           const std::vector<std::vector<order_entry>>& entries,
                           const std::optional<recording_end>& end) {
  std::stringbuf bytes;
  recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", header);
  if (end)
    for (const recorded_switch& s : end->switches) writer.add_switch(s);
  for (std::uint32_t s = 0; s < entries.size(); ++s) writer.add_entries(s, entries[s]);
  writer.add_deals(small_deals);
  if (end) writer.end(*end);
  return bytes.str();
}

inline std::string small_recording() { return written(small_header(), small_entries(), small_end()); }

/// Why `bytes` are refused; empty if they are not. Anything but a recording_error is let through.
inline std::string refusal(const std::string& bytes) {
  try {
    require_repeatable(parse_recording(bytes, "x.rec"));
  } catch (const recording_error& e) {
    return e.what();
  }
  return "";
}

} // namespace mailgrad::testing
