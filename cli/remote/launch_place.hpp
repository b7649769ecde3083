#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace mailgrad {

/// The variables of a process.
using environment = std::map<std::string, std::string, std::less<>>;

/// Those of this process.
environment environment_of_process();

/// On how many hosts the ranks run, as far as the launcher says.
enum class spread { unknown, one_host, several_hosts };

/// The place of a process among those that a launcher has started together.
struct launch_place {
  std::uint32_t rank = 0; ///< 0 serves, each of the others is a worker
  std::uint32_t size = 1; ///< how many ranks there are
  std::string run;      ///< differs from that of any other run, and may be part of a file's name; empty: the
                        ///< launcher gives none
  std::string launcher; ///< "mpirun", "mpiexec" or "srun"
  spread over = spread::unknown;
  std::string hosts; ///< which these are, if the launcher says so: "node[1-4]"

  bool serves() const noexcept { return rank == 0; }
  std::uint32_t workers() const noexcept { return size - 1; }
  /// Whether the launcher kills the ranks a second after the signal that tells them to end. srun lets them
  /// half a minute.
  bool is_killed_soon() const { return launcher != "srun"; }
  /// "rank 2 of 4"
  std::string name() const;

  friend bool operator==(const launch_place&, const launch_place&) = default;
};

/// The place that a launcher tells: Open MPI's mpirun, an mpiexec that speaks PMI (MPICH, Intel MPI), or
/// Slurm's srun. An mpirun in a job of Slurm counts as mpirun. Nothing if no launcher has started the
/// process, also in a script of sbatch, which is not a rank itself.
///
/// Errors  std::invalid_argument in one line for a rank or size that is no number, or a rank beyond the size.
std::optional<launch_place> place_in(const environment& e);

} // namespace mailgrad
