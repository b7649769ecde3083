#pragma once

#include <gmock/gmock.h>

#include <algorithm>

namespace mailgrad::testing {

MATCHER(IsOneLine, "is one line that names the tool") {
  return arg.starts_with("mailgrad: ") && std::ranges::count(arg, '\n') == 1 && arg.back() == '\n';
}

} // namespace mailgrad::testing
