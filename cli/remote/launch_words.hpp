#pragma once

#include <mailgrad/cli/remote/launch_place.hpp>
#include <mailgrad/net/mpi/mpi_network.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mailgrad {

/// On how many of the machine's processors a process may run.
struct core_binding {
  std::size_t bound = 0;
  std::size_t of = 0;

  bool narrow() const noexcept { return bound < of; }
  /// One line: what the launcher has done, and how it does not.
  ///
  /// Requires  narrow().
  std::string in_words(std::string_view launcher) const;
};

/// That of this process. Its quota is not the launcher's doing.
core_binding binding_of_process();

/// The values of the options by which ranks find each other, before they are interpreted.
struct launch_words {
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
///         is that of remote_words.
void check_transport(const launch_words& w, bool has_keys, const std::string& when_alone);

/// Where rank 0 listens.
std::string address_to_listen(const launch_words& w, const launch_place& place, bool has_keys);

/// Whether it is known where the server is found, so that no file has to say it: by MPI, or by an option with
/// a port, and a host that is none of 0.0.0.0 and [::].
///
/// Errors  std::invalid_argument in one line for an address that is none.
bool is_told(const launch_words& w);

/// The network of this rank with --transport mpi. Returns when every rank has one.
///
/// Errors  std::invalid_argument in one line if there is no MPI, or one that this launcher does not serve.
std::shared_ptr<net::mpi_network> network_of_rank(const launch_words& w, const launch_place& place);

} // namespace mailgrad
