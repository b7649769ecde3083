#include <mailgrad/cli/remote/rank_network.hpp>

#include <mailgrad/cli/output/failure_line.hpp>

#include <mailgrad/net/mpi/mpi_library.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

std::unique_ptr<net::mpi_calls> mpi_or_words() try {
  return net::mpi_of_this_machine();
} catch (const std::runtime_error& e) {
  throw std::invalid_argument(fmt::format("--transport {}", e.what()));
}

} // namespace

std::shared_ptr<net::mpi_network> network_of_rank(const launch_words& w, const launch_place& place) {
  auto made = std::make_shared<net::mpi_network>(
      mpi_or_words(),
      net::mpi_options{.patience = std::chrono::seconds{w.bound_s},
                       .on_wait = [](const std::string& words) { say_failure("rank 0: " + words); }});
  const auto expected = std::pair{static_cast<int>(place.rank), static_cast<int>(place.size)};
  if (std::pair{made->rank(), made->size()} == expected) return made;
  made->abandon();
  throw std::invalid_argument(fmt::format(
      "--transport mpi: expected {} as {} says, found rank {} of {}: take the launcher of the MPI that "
      "Mailgrad was built with, or --transport tcp",
      place.name(), place.launcher, made->rank(), made->size()));
}

} // namespace mailgrad
