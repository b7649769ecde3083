#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// `text` as a terminal may have it: UTF-8 with its line breaks and tabs, and "\x1b" for each byte of a
/// control character or of what is no UTF-8, so that nothing that a model writes moves the cursor.
std::string printable(std::string_view text);

} // namespace mailgrad
