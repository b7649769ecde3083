#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// Makes `text` safe for a terminal, so that text written by a model cannot move the cursor. UTF-8, line
/// breaks and tabs are kept; each byte of another control character, or of invalid UTF-8, is shown as "\x1b".
std::string printable(std::string_view text);

} // namespace mailgrad
