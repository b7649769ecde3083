#pragma once

#include <mailgrad/tensor/error.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <variant>

namespace mailgrad::cuda {

/// A library of NVIDIA that was opened while the program runs.
class loaded_library {
public:
  /// `name` stands in errors.
  loaded_library(void* opened, const char* name) : opened_(opened), name_(name) {}
  loaded_library(const loaded_library&) = delete;
  loaded_library& operator=(const loaded_library&) = delete;
  ~loaded_library() { static_cast<void>(dlclose(opened_)); }

  /// Becomes a pointer to the function, whatever its type.
  struct symbol {
    void* address;
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  /// Errors  device_error if the library lacks it.
  symbol find(const char* function) const {
    if (void* const address = dlsym(opened_, function)) return {address};
    throw device_error(world_errc::no_such_device,
                       fmt::format("the {} of this machine lacks {}", name_, function));
  }

private:
  void* opened_;
  const char* name_;
};

/// The functions of a library, which stays open until the process ends. One that is of no use is closed and
/// not tried again.
///
/// Errors  device_error that the constructor of Functions throws.
template <class Functions>
const Functions& functions_of_library() {
  static const auto found = []() -> std::variant<const Functions*, device_error> {
    try {
      return new Functions();
    } catch (const device_error& e) {
      return e;
    }
  }();
  if (const auto* why = std::get_if<device_error>(&found)) throw device_error(*why);
  return *std::get<const Functions*>(found);
}

} // namespace mailgrad::cuda
