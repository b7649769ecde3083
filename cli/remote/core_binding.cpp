#include <mailgrad/cli/remote/core_binding.hpp>

#include <fmt/format.h>

#include <sched.h>
#include <unistd.h>

namespace mailgrad {

std::string core_binding::in_words(std::string_view launcher) const {
  const std::string_view remedy = launcher == "srun"
                                      ? "srun --cpu-bind=none or more --cpus-per-task gives it more"
                                      : "'--bind-to none' lets it run on all";
  return fmt::format("rank 0 is bound to {} of {} cores, and the ranks are so by {}: {}", bound, of, launcher,
                     remedy);
}

core_binding binding_of_process() {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (online <= 0 || sched_getaffinity(0, sizeof mine, &mine) != 0) return {};
  return {static_cast<std::size_t>(CPU_COUNT(&mine)), static_cast<std::size_t>(online)};
}

} // namespace mailgrad
