#include <mailgrad/net/fence.hpp>

#include <fmt/format.h>

namespace mailgrad::net {

std::variant<std::uint32_t, refusal> fence::admit(const member& m, std::uint32_t wanted) {
  std::uint32_t& highest = highest_[m];
  if (wanted == 0 && highest == UINT32_MAX)
    return refusal{refusal_code::incarnation, fmt::format("fewer than {} of {}", UINT32_MAX, to_string(m)),
                   "as many"};
  if (wanted != 0 && wanted <= highest)
    return refusal{refusal_code::incarnation,
                   fmt::format("{} or later of {}", highest + std::uint64_t{1}, to_string(m)),
                   fmt::format("{}", wanted)};
  if (wanted > highest && wanted - highest > most_missed)
    return refusal{refusal_code::incarnation,
                   fmt::format("at most {} of {}", std::uint64_t{highest} + most_missed, to_string(m)),
                   fmt::format("{}", wanted)};
  return highest = wanted == 0 ? highest + 1 : wanted;
}

bool fence::is_current(const member& m, std::uint32_t incarnation) const noexcept {
  return incarnation > 0 && highest(m) == incarnation;
}

std::uint32_t fence::highest(const member& m) const noexcept {
  const auto found = highest_.find(m);
  return found == highest_.end() ? 0 : found->second;
}

} // namespace mailgrad::net
