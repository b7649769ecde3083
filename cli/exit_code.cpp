#include <mailgrad/cli/exit_code.hpp>

#include <stdexcept>
#include <system_error>

namespace mailgrad {

int exit_code_of(const std::exception& e) {
  if (const auto* by = dynamic_cast<const ended_by_signal*>(&e)) return exit_code::of_signal(by->number());
  const bool mendable = dynamic_cast<const std::invalid_argument*>(&e) != nullptr ||
                        dynamic_cast<const std::system_error*>(&e) != nullptr;
  return mendable ? exit_code::bad_input : exit_code::failed;
}

} // namespace mailgrad
