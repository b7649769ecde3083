#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// A text as one word of a command line, for messages: as it is, or in single quotes if a shell would read it
/// otherwise.
std::string shell_word(std::string_view text);

} // namespace mailgrad
