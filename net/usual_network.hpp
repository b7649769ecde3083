#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/tensor/block.hpp>

namespace mailgrad::net {

/// The network of an address that needs no keys: shared memory for "memory:NAME", MPI for
/// "mpi:RANK", else TCP on this machine.
/// Errors  std::system_error if there is no thread to be had. std::runtime_error if there is no MPI, or it
///         was begun before. The address is not checked.
std::shared_ptr<network> usual_network(std::string_view address);

/// The network by which a process that uses `own` for the address `server` reaches another address, or
/// listens at it: the same where both are addresses of one kind, since it has the keys; else the usual one.
std::shared_ptr<network> fitting_network(const std::shared_ptr<network>& own, std::string_view server,
                                         std::string_view address);

/// Memory from which a process lends bodies to those that it meets at this address; null where nothing can be
/// lent: the address is not of shared memory, or this system has none. `kept` is that of heap_options.
std::shared_ptr<shared_heap> heap_for(std::string_view address,
                                      std::optional<std::chrono::milliseconds> kept);

/// Blocks of this heap; null: those of the process.
block_source blocks_of(std::shared_ptr<shared_heap> heap);

} // namespace mailgrad::net
