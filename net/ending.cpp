#include <mailgrad/net/ending.hpp>

#include <array>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 10> names{"",          "left",         "silent",         "lost",
                                                 "malformed", "out of order", "without credit", "superseded",
                                                 "refused",   "late"};

} // namespace

std::string_view to_string(end_reason r) noexcept { return names[static_cast<std::uint8_t>(r)]; }

bool is_end_reason(std::uint8_t number) noexcept { return number > 0 && number < names.size(); }

} // namespace mailgrad::net
