#include <mailgrad/cli/exit_code.hpp>

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/tensor/error.hpp>

#include <system_error>

namespace mailgrad {

int exit_code_of(const std::exception& e) {
  if (const auto* by = dynamic_cast<const ended_by_signal*>(&e)) return exit_code::of_signal(by->number());
  if (dynamic_cast<const remote::called_off*>(&e) != nullptr) return exit_code::done;
  if (const auto* by = dynamic_cast<const device_error*>(&e);
      by && (by->code() == world_errc::device_failure || by->code() == world_errc::out_of_memory))
    return exit_code::failed;
  const bool mendable = dynamic_cast<const std::invalid_argument*>(&e) != nullptr ||
                        dynamic_cast<const std::system_error*>(&e) != nullptr;
  return mendable ? exit_code::bad_input : exit_code::failed;
}

int exit_code_of(const net::ending& e) {
  return e.reason == net::end_reason::left ? exit_code::done : exit_code::failed;
}

} // namespace mailgrad
