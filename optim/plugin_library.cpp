#include <mailgrad/files/digests.hpp>
#include <mailgrad/optim/plugin_library.hpp>

#include <fmt/format.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
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

struct loaded_digests {
  std::mutex mutex;
  std::map<std::string, std::string> of_path;
};

loaded_digests& digests() {
  static loaded_digests all;
  return all;
}

} // namespace

std::string digest_of_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad())
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                            "plug-in '" + path + "' cannot be read");
  return sha256(std::as_bytes(std::span(bytes)));
}

/// The loader gives the same library for the same path, though the file may be another by now.
std::optional<std::string> digest_of_loaded(const std::string& path) {
  const std::lock_guard lock(digests().mutex);
  const auto found = digests().of_path.find(path);
  return found == digests().of_path.end() ? std::nullopt : std::optional(found->second);
}

void plugin_library::closes_library::operator()(void* library) const { dlclose(library); }

plugin_library::plugin_library(std::string_view path, refusal refuse)
    : path_(path), refuse_(std::move(refuse)) {
  // The loader would search the system's libraries for a name without a slash.
  const std::string file = (path.find('/') == std::string_view::npos ? "./" : "") + std::string(path);
  if (access(file.c_str(), R_OK) != 0) refuse_("cannot be read: " + std::generic_category().message(errno));
  library_.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library_) refuse_("cannot be loaded: " + loader_complaint(file));
  const auto before = digest_of_loaded(path_);
  sha256_ = before ? *before : digest_of_file(file);
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
  const std::lock_guard lock(digests().mutex);
  digests().of_path.emplace(path_, sha256_);
  library_.release(); // NOLINT(bugprone-unused-return-value): it stays loaded
}

} // namespace mailgrad
