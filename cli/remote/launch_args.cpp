#include <mailgrad/cli/remote/launch_args.hpp>

#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>
#include <mailgrad/options/number.hpp>

#include <limits>

extern char** environ;

namespace mailgrad {

namespace {

std::string value_of(const environment& e, std::string_view name) {
  const auto found = e.find(name);
  return found == e.end() ? std::string() : found->second;
}

bool has(const environment& e, std::string_view name) { return !value_of(e, name).empty(); }

std::uint32_t number_of(const environment& e, std::string_view name) {
  const std::string text = value_of(e, name);
  const auto n = parse_whole(text);
  if (!n || *n > std::numeric_limits<std::uint32_t>::max())
    reject("launch: {}: expected a whole number from the launcher, found '{}'", name, text);
  return static_cast<std::uint32_t>(*n);
}

spread spread_if(bool one) { return one ? spread::one_host : spread::several_hosts; }

/// The same text without what a file's name may not hold.
std::string as_file_name(std::string text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@";
  std::ranges::replace_if(
      text, [&](char c) { return allowed.find(c) == std::string_view::npos; }, '_');
  return text;
}

/// The variables by which an MPI tells the place.
struct mpi_variables {
  const char *launcher, *rank, *size, *run, *ranks_of_host;
};
constexpr mpi_variables open_mpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE"};
/// MPICH's mpiexec names no run.
constexpr mpi_variables pmi{"mpiexec", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "MPI_LOCALNRANKS"};

launch_place place_of(const environment& e, const mpi_variables& mpi) {
  launch_place p{.rank = number_of(e, mpi.rank),
                 .size = number_of(e, mpi.size),
                 .run = as_file_name(value_of(e, mpi.run)),
                 .launcher = mpi.launcher,
                 .hosts = {}};
  if (has(e, mpi.ranks_of_host)) p.over = spread_if(number_of(e, mpi.ranks_of_host) == p.size);
  return p;
}

std::uint32_t size_of_slurm(const environment& e) {
  return number_of(e, has(e, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
}

/// A job that is queued again has the same number, and may find the address file that its last try has left
/// behind.
std::string run_of_slurm(const environment& e) {
  const std::string step = value_of(e, "SLURM_JOB_ID") + '.' + value_of(e, "SLURM_STEP_ID");
  return has(e, "SLURM_RESTART_COUNT") ? step + ".again-" + value_of(e, "SLURM_RESTART_COUNT") : step;
}

launch_place place_of_slurm(const environment& e) {
  launch_place p{
      .rank = number_of(e, "SLURM_PROCID"),
      .size = size_of_slurm(e),
      .run = as_file_name(run_of_slurm(e)),
      .launcher = "srun",
      .hosts = value_of(e, "SLURM_STEP_NODELIST"),
  };
  if (has(e, "SLURM_STEP_NUM_NODES")) p.over = spread_if(number_of(e, "SLURM_STEP_NUM_NODES") == 1);
  return p;
}

std::optional<launch_place> reported_place(const environment& e) {
  if (has(e, "OMPI_COMM_WORLD_RANK")) return place_of(e, open_mpi);
  const bool by_slurm = has(e, "SLURM_PROCID") && has(e, "SLURM_STEP_ID");
  const bool by_pmi = has(e, "PMI_RANK");
  // srun may speak PMI besides. An mpiexec in a job of Slurm starts a step with one task for each host, whose
  // number of tasks is then another one than that of its ranks.
  if (by_slurm && (!by_pmi || number_of(e, "PMI_SIZE") == size_of_slurm(e))) return place_of_slurm(e);
  if (by_pmi) return place_of(e, pmi);
  return std::nullopt;
}

std::unique_ptr<net::mpi_calls> mpi_or_words() try {
  return net::mpi_of_this_machine();
} catch (const std::runtime_error& e) {
  reject("--transport {}", e.what());
}

} // namespace

std::string launch_place::name() const { return fmt::format("rank {} of {}", rank, size); }

environment environment_of_process() {
  environment all;
  for (char** each = environ; each && *each; ++each) {
    const std::string_view text = *each;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      all.emplace(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return all;
}

std::optional<launch_place> place_in(const environment& e) {
  const auto place = reported_place(e);
  if (place && place->rank >= place->size)
    reject("launch: expected a rank below the size {} from {}, found rank {}", place->size, place->launcher,
           place->rank);
  return place;
}

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
    reject(
        "launch: expected to be one of several ranks, found no launcher (OMPI_COMM_WORLD_RANK, PMI_RANK and "
        "SLURM_PROCID are not set); run: mpirun -n 4 mailgrad launch ... or srun -n 4 mailgrad launch ...");
  if (place->size < 2)
    reject("launch: expected 2 ranks or more, a server and its workers, found 1; run: {} -n 2 mailgrad "
           "launch ...",
           place->launcher);
  if (place->over == spread::several_hosts && !has_keys)
    reject("launch: expected --keys for ranks on several hosts{}, found none, with which only processes of "
           "one machine meet; make a folder that every rank sees by: mailgrad keys new run-keys",
           place->hosts.empty() ? "" : " (" + place->hosts + ')');
  return *place;
}

void check_transport(const launch_args& w, bool has_keys, const std::string& when_alone) {
  if (w.all_reduce && !w.is_by_mpi())
    reject("--all-reduce: expected --transport mpi, by which workers reach each other, found {}: take it, or "
           "leave --all-reduce away",
           w.transport);
  if (!w.is_by_mpi()) return;
  if (has_keys)
    reject("--keys: expected none with --transport mpi, which trusts every rank of its launcher: leave them "
           "away, or take --transport tcp");
  if (when_alone != "end")
    reject("--when-alone {}: expected end with --transport mpi, where nobody can join later: leave it away, "
           "or take --transport tcp",
           when_alone);
  if (!w.listen.empty())
    reject("--listen: expected none with --transport mpi, by which ranks know each other, found '{}': leave "
           "it away",
           w.listen);
}

std::string address_to_listen(const launch_args& w, const launch_place& place, bool has_keys) {
  if (w.is_by_mpi()) return net::mpi_address(0);
  if (!w.listen.empty()) return w.listen;
  return has_keys && place.over != spread::one_host ? "0.0.0.0:0" : "127.0.0.1:0";
}

bool is_told(const launch_args& w) {
  if (w.is_by_mpi()) return true;
  if (w.listen.empty()) return false;
  const listen_address where = parse_listen_address(w.listen);
  return where.port != 0 && !where.is_every_network();
}

std::shared_ptr<net::mpi_network> network_of_rank(const launch_args& w, const launch_place& place) {
  auto made = std::make_shared<net::mpi_network>(
      mpi_or_words(),
      net::mpi_options{.patience = std::chrono::seconds{w.bound_s},
                       .on_wait = [](const std::string& words) { say_failure("rank 0: " + words); }});
  const auto expected = std::pair{static_cast<int>(place.rank), static_cast<int>(place.size)};
  if (std::pair{made->rank(), made->size()} == expected) return made;
  made->abandon();
  reject("--transport mpi: expected {} as {} says, found rank {} of {}: take the launcher of the MPI that "
         "Mailgrad was built with, or --transport tcp",
         place.name(), place.launcher, made->rank(), made->size());
}

} // namespace mailgrad
