#pragma once

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad {

/// Throws an error with a formatted text.
template <class Error, class... T>
[[noreturn, gnu::cold]] void fail_with(fmt::format_string<T...> text, T&&... what) {
  throw Error(fmt::format(text, std::forward<T>(what)...));
}

/// Throws a device_error with this code.
template <class... T>
[[noreturn, gnu::cold]] void fail_with(world_errc code, fmt::format_string<T...> text, T&&... what) {
  throw device_error(code, fmt::format(text, std::forward<T>(what)...));
}

} // namespace mailgrad
