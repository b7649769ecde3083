#include <mailgrad/net/ending.hpp>

#include <array>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 13> reason_names{
    "",           "left",    "silent", "lost",   "malformed", "out of order", "without credit",
    "superseded", "refused", "late",   "failed", "absent",    "run failed"};

} // namespace

std::string_view to_string(end_reason r) noexcept { return reason_names[static_cast<std::uint8_t>(r)]; }

bool is_end_reason(std::uint8_t number) noexcept {
  return number > 0 && number < reason_names.size() && end_reason{number} != end_reason::absent;
}

} // namespace mailgrad::net
