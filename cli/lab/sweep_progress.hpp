#pragma once

#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>

namespace mailgrad {

/// How far a sweep is.
struct sweep_state {
  std::size_t cells = 0; ///< of the whole grid
  std::size_t ended = 0; ///< of these, also by an earlier command
  std::size_t failed = 0;
  std::uint64_t steps = 0;      ///< that the cells of this command take
  std::uint64_t steps_done = 0; ///< of these
};

/// "12 of 48 cells, 1 diverged or failed, 35 s left"
std::string in_words(const sweep_state& s, double seconds);

/// Shows it: a bar that redraws itself on a terminal, a line every few seconds elsewhere.
///
/// Threads any.
class sweep_progress {
public:
  sweep_progress(std::ostream& out, progress_display::style how, sweep_state begin)
      : out_(out), style_(how), state_(begin) {}

  void add_steps(std::uint64_t steps);
  void add_cell(bool completed);
  void finish();
  sweep_state state();

private:
  void show(bool now);

  std::mutex mutex_;
  std::ostream& out_;
  const progress_display::style style_;
  sweep_state state_;
  machine_time time_;
  const instant begun_ = time_.now();
  instant shown_{0};
  bool drawn_ = false;
};

} // namespace mailgrad
