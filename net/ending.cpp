#include <mailgrad/net/ending.hpp>

#include <array>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 12> reason_names{
    "",           "left",    "silent", "lost",   "malformed", "out of order", "without credit",
    "superseded", "refused", "late",   "failed", "absent"};

} // namespace

std::string_view to_string(end_reason r) noexcept { return reason_names[static_cast<std::uint8_t>(r)]; }

bool is_end_reason(std::uint8_t number) noexcept {
  return number > 0 && number <= static_cast<std::uint8_t>(last_end_reason);
}

} // namespace mailgrad::net
