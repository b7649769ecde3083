#pragma once

#include <string>
#include <string_view>

namespace mailgrad::net {

/// Whether an address is that of a rank of MPI: "mpi:RANK", where HOST:PORT stands elsewhere.
bool is_mpi_address(std::string_view address) noexcept;

/// The rank in "mpi:RANK".
///
/// Errors  std::invalid_argument in one line.
int parse_mpi_address(std::string_view address);

/// "mpi:0"
std::string mpi_address(int rank);

} // namespace mailgrad::net
