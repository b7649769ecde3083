#include <mailgrad/cli/remote/launch_place.hpp>

#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>

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
    throw std::invalid_argument(
        fmt::format("launch: {}: expected a whole number from the launcher, found '{}'", name, text));
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

launch_place place_of_open_mpi(const environment& e) {
  launch_place p{.rank = number_of(e, "OMPI_COMM_WORLD_RANK"),
                 .size = number_of(e, "OMPI_COMM_WORLD_SIZE"),
                 .run = as_file_name(value_of(e, "PMIX_NAMESPACE")),
                 .launcher = "mpirun",
                 .hosts = {}};
  if (has(e, "OMPI_COMM_WORLD_LOCAL_SIZE"))
    p.over = spread_if(number_of(e, "OMPI_COMM_WORLD_LOCAL_SIZE") == p.size);
  return p;
}

/// MPICH's mpiexec names no run.
launch_place place_of_pmi(const environment& e) {
  launch_place p{.rank = number_of(e, "PMI_RANK"),
                 .size = number_of(e, "PMI_SIZE"),
                 .run = as_file_name(value_of(e, "PMI_JOBID")),
                 .launcher = "mpiexec",
                 .hosts = {}};
  if (has(e, "MPI_LOCALNRANKS")) p.over = spread_if(number_of(e, "MPI_LOCALNRANKS") == p.size);
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

std::optional<launch_place> told_place(const environment& e) {
  if (has(e, "OMPI_COMM_WORLD_RANK")) return place_of_open_mpi(e);
  const bool by_slurm = has(e, "SLURM_PROCID") && has(e, "SLURM_STEP_ID");
  const bool by_pmi = has(e, "PMI_RANK");
  // srun may speak PMI besides. An mpiexec in a job of Slurm starts a step with one task for each host, whose
  // number of tasks is then another one than that of its ranks.
  if (by_slurm && (!by_pmi || number_of(e, "PMI_SIZE") == size_of_slurm(e))) return place_of_slurm(e);
  if (by_pmi) return place_of_pmi(e);
  return std::nullopt;
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
  const auto place = told_place(e);
  if (place && place->rank >= place->size)
    throw std::invalid_argument(
        fmt::format("launch: expected a rank below the size {} from {}, found rank {}", place->size,
                    place->launcher, place->rank));
  return place;
}

} // namespace mailgrad
