#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/remote/launch_words.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

std::string core_binding::in_words(std::string_view launcher) const {
  const std::string_view remedy = launcher == "srun"
                                      ? "srun --cpu-bind=none or more --cpus-per-task gives it more"
                                      : "'--bind-to none' lets it run on all";
  return fmt::format("rank 0 is bound to {} of {} cores, and the ranks are so by {}: {}", bound, of, launcher,
                     remedy);
}

core_binding binding_of_process() {
  const usable_cores cores = cores_of_process();
  return {cores.bound, cores.online};
}

launch_place required_place(const environment& e, bool has_keys) {
  const auto place = place_in(e);
  if (!place)
    throw std::invalid_argument(
        "launch: expected to be one of several ranks, found no launcher (OMPI_COMM_WORLD_RANK, PMI_RANK and "
        "SLURM_PROCID are not set); run: mpirun -n 4 mailgrad launch ... or srun -n 4 mailgrad launch ...");
  if (place->size < 2)
    throw std::invalid_argument(fmt::format("launch: expected 2 ranks or more, a server and its workers, "
                                            "found 1; run: {} -n 2 mailgrad launch ...",
                                            place->launcher));
  if (place->over == spread::several_hosts && !has_keys)
    throw std::invalid_argument(fmt::format(
        "launch: expected --keys for ranks on several hosts{}, found none, with which only processes of one "
        "machine meet; make a folder that every rank sees by: mailgrad keys new run-keys",
        place->hosts.empty() ? "" : " (" + place->hosts + ')'));
  return *place;
}

void check_transport(const launch_words& w, bool has_keys, const std::string& when_alone) {
  if (w.all_reduce && !w.is_by_mpi())
    throw std::invalid_argument(fmt::format("--all-reduce: expected --transport mpi, by which workers reach "
                                            "each other, found {}: take it, or leave "
                                            "--all-reduce away",
                                            w.transport));
  if (!w.is_by_mpi()) return;
  if (has_keys)
    throw std::invalid_argument("--keys: expected none with --transport mpi, which trusts every rank of its "
                                "launcher: leave them away, or take --transport tcp");
  if (when_alone != "end")
    throw std::invalid_argument(fmt::format(
        "--when-alone {}: expected end with --transport mpi, where nobody can join later: leave it "
        "away, or take --transport tcp",
        when_alone));
  if (!w.listen.empty())
    throw std::invalid_argument(
        fmt::format("--listen: expected none with --transport mpi, by which ranks know "
                    "each other, found '{}': leave it away",
                    w.listen));
}

std::string address_to_listen(const launch_words& w, const launch_place& place, bool has_keys) {
  if (w.is_by_mpi()) return net::mpi_address(0);
  if (!w.listen.empty()) return w.listen;
  return has_keys && place.over != spread::one_host ? "0.0.0.0:0" : "127.0.0.1:0";
}

bool is_told(const launch_words& w) {
  if (w.is_by_mpi()) return true;
  if (w.listen.empty()) return false;
  const listen_address where = parse_listen_address(w.listen);
  return where.port != 0 && !where.is_every_network();
}

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
