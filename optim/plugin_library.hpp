#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mailgrad {

/// Whether a word of an option is the file of a plug-in: it has a slash in it, or ends with ".so".
bool names_a_plugin(std::string_view word);

/// A shared library with a user's rule, policy or cure. The destructor unloads it unless keep() was called.
///
/// Threads one caller at a time.
class plugin_library {
public:
  /// Is given one line that says why the file is no plug-in; must throw.
  using refusal = std::function<void(const std::string& why)>;

  plugin_library(std::string_view path, refusal refuse);

  bool has(const char* function) const;
  /// The function of this name, which takes nothing and returns a table.
  const void* table_from(const char* function) const;

  /// Keeps the library loaded until the process ends, because its functions stay in use.
  void keep();

private:
  struct closes_library {
    void operator()(void* library) const;
  };

  refusal refuse_;
  std::unique_ptr<void, closes_library> library_;
};

} // namespace mailgrad
