#include <mailgrad/optim/plugin_library.hpp>

#include <fmt/format.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

/// The loader's message, without the path at its beginning.
std::string loader_complaint(const std::string& file) {
  const char* text = dlerror();
  std::string why = text ? text : "unknown error";
  return why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why;
}

} // namespace

bool names_a_plugin(std::string_view word) {
  return word.find('/') != std::string_view::npos || word.ends_with(".so");
}

void plugin_library::closes_library::operator()(void* library) const { dlclose(library); }

plugin_library::plugin_library(std::string_view path, refusal refuse) : refuse_(std::move(refuse)) {
  // The loader would search the system's libraries for a name without a slash.
  const std::string file = (path.find('/') == std::string_view::npos ? "./" : "") + std::string(path);
  if (access(file.c_str(), R_OK) != 0) refuse_("cannot be read: " + std::generic_category().message(errno));
  library_.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library_) refuse_("cannot be loaded: " + loader_complaint(file));
}

bool plugin_library::has(const char* function) const { return dlsym(library_.get(), function) != nullptr; }

const void* plugin_library::table_from(const char* function) const {
  const auto describe = reinterpret_cast<const void* (*)()>(dlsym(library_.get(), function));
  if (!describe) refuse_(fmt::format("is no plug-in: it has no function {}", function));
  const void* table = describe();
  if (!table) refuse_(fmt::format("is no plug-in: its {} returns nothing", function));
  return table;
}

void plugin_library::keep() {
  library_.release(); // NOLINT(bugprone-unused-return-value): it stays loaded
}

} // namespace mailgrad
