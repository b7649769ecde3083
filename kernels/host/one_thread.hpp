#pragma once

namespace mailgrad {

/// Keeps oneDNN on the calling thread: one device is one thread, parallelism comes from devices. Every
/// function that calls oneDNN calls this before; after the first call of a thread it costs nothing.
void use_one_thread() noexcept;

} // namespace mailgrad
