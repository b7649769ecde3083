#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mailgrad {

/// On how many of the machine's processors a process may run.
struct core_binding {
  std::size_t bound = 0;
  std::size_t of = 0;

  bool narrow() const noexcept { return bound < of; }
  /// One line: what the launcher has done, and how it does not.
  ///
  /// Requires  narrow().
  std::string in_words(std::string_view launcher) const;
};

/// That of this process. Its quota is not the launcher's doing.
core_binding binding_of_process();

} // namespace mailgrad
