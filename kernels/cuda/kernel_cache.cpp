#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/kernels/cuda/kernel_cache.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mailgrad::cuda {
namespace {

namespace fs = std::filesystem;

constexpr seal seal_of_entry{.magic = "MGKERNEL", .format = 1, .what = "kernel"};

std::string_view value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::string_view() : value;
}

std::vector<std::byte> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

struct entry {
  fs::path file;
  std::uintmax_t bytes = 0;
  fs::file_time_type wanted;
};

/// Whether keep() gives files such names: the folder may be one in which the user has files of his own.
bool is_of_an_entry(const fs::path& file) {
  const fs::path whole = file.extension() == ".partial" ? file.stem() : file;
  const std::string name = whole.stem().string();
  return whole.extension() == ".kernel" && name.size() == kernel_cache::name_size &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The entries of the folder, and what was left of some, but for those that are being written now.
std::vector<entry> entries_of(const fs::path& folder) {
  std::vector<entry> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code gone; // another process may forget it at this moment
    if (!is_of_an_entry(at->path().filename()) || !fs::is_regular_file(at->symlink_status(gone))) continue;
    entry e{at->path(), at->file_size(gone), at->last_write_time(gone)};
    if (!gone && !replaced_file::is_being_written(e.file.string())) found.push_back(std::move(e));
  }
  return found;
}

} // namespace

fs::path kernel_cache::usual_folder() {
  const std::string_view named = value_of("MAILGRAD_KERNEL_CACHE");
  if (named == "off") return {};
  if (!named.empty()) return named;
  if (const fs::path caches = value_of("XDG_CACHE_HOME"); caches.is_absolute())
    return caches / "mailgrad" / "kernels";
  const fs::path home = value_of("HOME");
  return home.is_absolute() ? home / ".cache" / "mailgrad" / "kernels" : fs::path();
}

std::optional<std::vector<std::byte>> kernel_cache::find(const std::string& name) const {
  if (folder_.empty()) return std::nullopt;
  try {
    if (!fs::is_regular_file(file_of(name))) return std::nullopt; // a pipe would be waited for
    const std::vector<std::byte> bytes = bytes_of(file_of(name));
    const std::string_view content = unsealed(seal_of_entry, bytes);
    if (!content.starts_with(name)) return std::nullopt;
    std::error_code ignored;
    fs::last_write_time(file_of(name), fs::file_time_type::clock::now(), ignored);
    const auto code = std::as_bytes(std::span(content.substr(name.size())));
    return std::vector(code.begin(), code.end());
  } catch (const std::exception&) {
    return std::nullopt; // it is damaged, and will be written again
  }
}

void kernel_cache::keep(const std::string& name, std::span<const std::byte> code) const {
  if (folder_.empty()) return;
  try {
    fs::create_directories(folder_);
    const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    const std::vector<std::byte> bytes = sealed(seal_of_entry, name + std::string(text));
    replaced_file out(file_of(name).string(), replaced_file::if_taken::fail);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (out.keep() == 0) forget_oldest();
  } catch (const std::exception&) {
    // The next process compiles it once more.
  }
}

void kernel_cache::forget_oldest() const {
  std::vector<entry> all = entries_of(folder_);
  std::uintmax_t bytes = 0;
  for (const entry& e : all) bytes += e.bytes;
  std::ranges::sort(all, {}, &entry::wanted);
  for (const entry& e : all) {
    if (bytes <= most_bytes_) return;
    std::error_code ignored;
    fs::remove(e.file, ignored);
    bytes -= e.bytes;
  }
}

} // namespace mailgrad::cuda
