#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ranges>
#include <vector>

// A change need not run the long loops of the tests whole. MAILGRAD_SLICE=N in the environment asks each of
// them for a tenth. Ten slices in a row are the whole loop and nothing else. scripts/test asks for the slice
// of the day; without the variable every loop is whole.

namespace mailgrad::testing {

using slice = std::ranges::iota_view<std::uint64_t, std::uint64_t>;

/// A tenth of 0, 1, .. count-1, but at least `least` of them.
constexpr slice numbered_slice(std::uint64_t number, std::uint64_t count, std::uint64_t least) {
  const std::uint64_t part = std::min(count, std::max(least, (count + 9) / 10));
  if (part == count) return slice(0, count);
  const std::uint64_t parts = (count + part - 1) / part;
  const std::uint64_t first = std::min(number % parts * part, count - part); // the last overlaps another
  return slice(first, first + part);
}

/// A number that the environment asks for, if it does.
inline std::optional<std::uint64_t> asked_number(const char* name) {
  const char* const text = std::getenv(name); // NOLINT(concurrency-mt-unsafe)
  return text ? std::optional<std::uint64_t>(std::strtoull(text, nullptr, 10)) : std::nullopt;
}

/// Those of 0, 1, .. count-1 that a loop shall try.
inline slice slice_of(std::uint64_t count, std::uint64_t least = 10) {
  const auto number = asked_number("MAILGRAD_SLICE");
  return number ? numbered_slice(*number, count, least) : slice(0, count);
}

/// As slice_of(), but every tenth instead of a tenth in a row, where neighbours are alike.
inline std::vector<std::uint64_t> spread_slice_of(std::uint64_t count) {
  const auto number = asked_number("MAILGRAD_SLICE");
  const std::uint64_t apart = number ? 10 : 1;
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = number.value_or(0) % apart; i < count; i += apart) chosen.push_back(i);
  return chosen;
}

/// As slice_of(), unless a variable of the environment says how many are tried, or another says from which.
inline slice slice_or(const char* how_many, const char* from, std::uint64_t count, std::uint64_t least = 10) {
  const auto asked_count = asked_number(how_many), asked_first = asked_number(from);
  if (!asked_count && !asked_first) return slice_of(count, least);
  const std::uint64_t first = asked_first.value_or(0);
  return slice(first, first + asked_count.value_or(count));
}

} // namespace mailgrad::testing
