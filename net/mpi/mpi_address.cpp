#include <mailgrad/net/mpi/mpi_address.hpp>

#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad::net {

namespace {

constexpr std::string_view mpi_scheme = "mpi:";
constexpr std::uint64_t most_rank = 9'999'999;

} // namespace

bool is_mpi_address(std::string_view address) noexcept { return address.starts_with(mpi_scheme); }

int parse_mpi_address(std::string_view address) {
  const auto rank =
      is_mpi_address(address) ? parse_whole(std::string(address.substr(mpi_scheme.size()))) : std::nullopt;
  if (!rank || *rank > most_rank)
    throw std::invalid_argument(
        fmt::format("'{}' is no address of MPI: expected mpi:RANK, as mpi:0 for the first rank", address));
  return static_cast<int>(*rank);
}

std::string mpi_address(int rank) { return fmt::format("{}{}", mpi_scheme, rank); }

} // namespace mailgrad::net
