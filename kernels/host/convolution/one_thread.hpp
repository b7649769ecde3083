#pragma once

namespace mailgrad {

/// Keeps oneDNN on the calling thread, since each CPU device has one thread. Every function that uses oneDNN
/// calls this first; after a thread's first call it costs nothing.
void use_one_thread() noexcept;

} // namespace mailgrad
