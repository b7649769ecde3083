#pragma once

#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <memory>
#include <string>

namespace mailgrad::net {

/// The MPI of this machine, by libmailgrad_mpi.so, which is linked with it. It is looked for beside this
/// program, in the folder of libraries of an installation, and then where the system's loader looks. It stays
/// loaded.
///
/// Errors  std::runtime_error in one line that says what to install.
std::unique_ptr<mpi_calls> mpi_of_this_machine();

/// The same from this file.
std::unique_ptr<mpi_calls> mpi_of_library(const std::string& file);

} // namespace mailgrad::net
