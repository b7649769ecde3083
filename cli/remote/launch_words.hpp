#pragma once

#include <mailgrad/cli/remote/launch_place.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

/// The values of the options by which ranks find each other, before they are interpreted.
struct launch_words {
  std::string transport = "tcp"; ///< what carries the tensors
  std::string listen;            ///< empty: as the keys and the launcher say
  std::string folder = ".";
  std::uint32_t bound_s = 300;
  bool all_reduce = false; ///< workers add gradients up by MPI before a shard sees them

  bool is_by_mpi() const { return transport == "mpi"; }
};

void add_launch_options(CLI::App& parser, launch_words& w);

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

} // namespace mailgrad
