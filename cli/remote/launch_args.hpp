#pragma once

#include <mailgrad/net/mpi/mpi_network.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

/// The variables of a process.
using environment = std::map<std::string, std::string, std::less<>>;
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

/// On how many of the machine's processors a process may run.
struct core_binding {
  std::size_t bound = 0;
  std::size_t of = 0;

  bool narrow() const noexcept { return bound < of; }
  /// Of one that is narrow(): what the launcher has done, and how it does not, in one line.
  std::string in_words(std::string_view launcher) const;
};
/// That of this process. Its quota is not the launcher's doing.
core_binding binding_of_process();

/// The values of the options by which ranks find each other, before they are interpreted.
struct launch_args {
  std::string transport = "tcp"; ///< what carries the tensors
  std::string listen;            ///< empty: as the keys and the launcher say
  std::string folder = ".";
  std::uint32_t bound_s = 300;
  bool all_reduce = false; ///< workers add gradients up by MPI before a shard sees them

  bool is_by_mpi() const { return transport == "mpi"; }
};

/// The place in the run, which this launcher tells.
///
/// Errors  std::invalid_argument in one line if there is no launcher, only one rank, or ranks on several
///         hosts without keys. MPI needs none, so with it they count as there.
launch_place required_place(const environment& e, bool has_keys);

/// Errors  std::invalid_argument in one line for a word that has no meaning with this transport. `when_alone`
///         is that of remote_args.
void check_transport(const launch_args& w, bool has_keys, const std::string& when_alone);

std::string address_to_listen(const launch_args& w, const launch_place& place, bool has_keys);

/// Whether it is known where the server is found, so that no file has to say it: by MPI, or by an option with
/// a port, and a host that is none of 0.0.0.0 and [::].
///
/// Errors  std::invalid_argument in one line for an address that is none.
bool is_told(const launch_args& w);

/// The network of this rank with --transport mpi. Returns when every rank has one.
///
/// Errors  std::invalid_argument in one line if there is no MPI, or one that this launcher does not serve.
std::shared_ptr<net::mpi_network> network_of_rank(const launch_args& w, const launch_place& place);

} // namespace mailgrad
