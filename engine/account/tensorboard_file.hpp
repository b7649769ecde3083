#pragma once

#include <mailgrad/engine/account/run_event.hpp>
#include <mailgrad/engine/account/tensorboard_event.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace mailgrad {

/// Where the events of a run begin.
struct board_start {
  calendar_time date{};           ///< of this process
  instant elapsed_before{0};      ///< time_s at this date; not 0 if it counts earlier processes too
  std::uint64_t steps_before = 0; ///< of earlier processes, if the steps of the lines leave these out
  std::optional<std::uint64_t> resumed_at{}; ///< the steps after which an earlier process was left
  board_options options{};                   ///< of the run; none: it has no row of its own among others
  std::string policy{};                      ///< with which it begins
  std::uint64_t switches = 0;                ///< of policy, by earlier processes
};

/// An event file of TensorBoard's, which grows while the run goes on. Each run writes one of its own into the
/// folder, behind those of earlier ones in the order of their names; it changes none of them.
///
/// Threads one caller at a time.
class tensorboard_file {
public:
  /// Makes the folder if it is not there.
  ///
  /// Errors  std::system_error if the file cannot be written.
  tensorboard_file(const std::string& folder, const board_start& start);

  /// Writes the event, so that a reader sees it. After a failure nothing more is written.
  void add(const metrics_line& x);
  void add(const gaps_measured& x);
  /// A text under "policy", at the step of the switch, and how many there were. Its time is that of the last
  /// line.
  void add(const policy_switch& x);
  /// A text and two counts under "members", at the step and the time of the last line.
  void add(const members_changed& x);
  /// Why the file is not whole; empty if it is.
  const std::string& failure() const noexcept { return failure_; }
  const std::filesystem::path& path() const noexcept { return path_; }

private:
  board_moment moment_of(double time_s, std::uint64_t steps) const noexcept;
  void tell_policy(const board_moment& when, const std::string& markdown);
  void write(const std::string& event);

  double time_zero_; ///< s since 1970 where time_s is 0
  std::uint64_t steps_before_;
  board_moment last_; ///< of a line, or where the file begins
  std::uint64_t switches_;
  std::filesystem::path path_;
  std::ofstream out_;
  std::string failure_;
};

} // namespace mailgrad
