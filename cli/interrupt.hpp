#pragma once

namespace mailgrad {

/// Turns Ctrl-C and a polite kill (SIGINT, SIGTERM) into a question that a loop can ask. A second signal ends
/// the process at once, as if nobody had caught the first.
///
/// Threads one object a process.
class interrupt {
public:
  interrupt();
  ~interrupt();
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  bool requested() const noexcept;
};

} // namespace mailgrad
