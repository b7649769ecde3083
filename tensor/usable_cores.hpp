#pragma once

#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// Where Linux says what a process may have of the processors.
struct cgroup_files {
  std::filesystem::path of_process = "/proc/self/cgroup"; ///< which control groups it is in
  std::filesystem::path mounted = "/sys/fs/cgroup";       ///< their folders
};

/// How many cores a process may use, and how many the machine has.
///
/// Source  sched_getaffinity(2); for the quota Linux, Documentation/admin-guide/cgroup-v2.rst, "cpu.max", and
///         Documentation/scheduler/sched-bwc.rst, "cpu.cfs_quota_us".
struct usable_cores {
  std::size_t online = 1; ///< of the machine
  std::size_t bound = 1;  ///< on which the process may run: its affinity, which a cpuset narrows as well
  /// Processor time a second that its control groups may have together, in cores. None: no limit.
  std::optional<double> quota{};

  /// How many threads can work at once, at least 1. A quota counts as the next whole number, as the Java and
  /// Go runtimes have it: with 1.5 cores a second thread still has half of one.
  std::size_t count() const noexcept;
  /// "1 of 2 cores: this process is bound to 1"; "2 cores" if there is nothing to explain.
  std::string in_words() const;
};

/// Those of this process. A file that is missing or makes no sense sets no limit.
///
/// Threads any; the affinity is that of the calling thread.
usable_cores cores_of_process(const cgroup_files& files = {});

/// A device for each of them: cpu:0, cpu:1, and so on. They are numbers of threads that compute; the system
/// puts a thread where it likes.
std::vector<device> usable_core_devices();

} // namespace mailgrad
