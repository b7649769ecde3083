#pragma once

#include <optional>
#include <string>

namespace mailgrad::simulated_gpu {

/// Notes what runtime::check_launch() will throw on this thread.
void note_error(std::string why);
std::optional<std::string> take_error();

} // namespace mailgrad::simulated_gpu
