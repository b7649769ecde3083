#pragma once

#include <string>

namespace mailgrad {

/// What decides how kernels round: their edition, compiler, instructions compiled for, and those that oneDNN
/// chooses from here. Where two machines say the same, the same run gives the same bits; where they do not,
/// it may not.
std::string arithmetic_in_words();

} // namespace mailgrad
