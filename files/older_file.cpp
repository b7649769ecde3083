#include <mailgrad/files/older_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

bool has_bytes(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) && fs::file_size(file, none) > 0;
}

/// A link that leads nowhere takes its name, too.
bool is_taken(const fs::path& name) {
  std::error_code none;
  return fs::exists(fs::symlink_status(name, none));
}

} // namespace

void keep_older(std::span<const fs::path> files) {
  std::string ending = ".old";
  const auto taken = [&](const fs::path& file) { return is_taken(file.string() + ending); };
  for (int n = 2; std::ranges::any_of(files, taken); ++n) ending = fmt::format(".old-{}", n);
  for (const fs::path& file : files)
    if (has_bytes(file)) fs::rename(file, file.string() + ending);
}

} // namespace mailgrad
