#pragma once

#include <mailgrad/cli/remote/launch_words.hpp>
#include <mailgrad/net/mpi/mpi_network.hpp>

#include <memory>

namespace mailgrad {

/// The network of this rank with --transport mpi. Returns when every rank has one.
///
/// Errors  std::invalid_argument in one line if there is no MPI, or one that this launcher does not serve.
std::shared_ptr<net::mpi_network> network_of_rank(const launch_words& w, const launch_place& place);

} // namespace mailgrad
