#include <mailgrad/cli/remote/core_binding.hpp>

#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

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

} // namespace mailgrad
