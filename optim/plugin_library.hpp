#pragma once

#include <functional>
#include <memory>
#include <optional>
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

  /// The SHA-256 of the file when it was loaded, by which processes know that they have the same one.
  const std::string& sha256() const noexcept { return sha256_; }
  bool has(const char* function) const;
  /// The function of this name, which takes nothing and returns a table.
  const void* table_from(const char* function) const;

  /// Keeps the library loaded until the process ends, because its functions stay in use.
  void keep();

private:
  struct closes_library {
    void operator()(void* library) const;
  };

  std::string path_;
  refusal refuse_;
  std::string sha256_;
  std::unique_ptr<void, closes_library> library_;
};

/// The SHA-256 of a file.
///
/// Errors  std::system_error if it cannot be read.
std::string digest_of_file(const std::string& path);

/// The SHA-256 of the library that was loaded from this path and kept, which the file there need no longer
/// be. Nothing if none was.
///
/// Threads any.
std::optional<std::string> digest_of_loaded(const std::string& path);

} // namespace mailgrad
