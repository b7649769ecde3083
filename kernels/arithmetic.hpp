#pragma once

#include <string>

namespace mailgrad {

/// Names what decides how kernels round: their edition, the compiler, the instructions they were compiled
/// for, and those that oneDNN may choose on this machine. The same run gives the same bits on two machines
/// for which this text is the same; on others it may not.
std::string format_arithmetic();

/// Names the vector instructions that the kernels were compiled for, such as "AVX-512".
const char* kernel_instructions();

} // namespace mailgrad
