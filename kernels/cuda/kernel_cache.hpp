#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad::cuda {

/// Code of kernels on the disk, so that the next process need not compile them. Processes share a folder: an
/// entry is whole when it gets its name, and says itself what it is of. One that is damaged, of another
/// version or unreadable is none. When the entries grow too large, those go that were wanted least lately.
/// What else lies in the folder stays.
///
/// Errors   none: on a disk that is full or may not be written nothing is kept.
/// Threads  one caller at a time.
class kernel_cache {
public:
  static constexpr std::uintmax_t usual_bytes = std::uintmax_t{64} << 20;
  static constexpr std::size_t name_size = 64;

  /// An empty folder: nothing is kept.
  explicit kernel_cache(std::filesystem::path folder, std::uintmax_t most_bytes = usual_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// The folder of this user: what MAILGRAD_KERNEL_CACHE names, if it is not `off`, or mailgrad/kernels in
  /// the user's folder for caches. Empty if there is none.
  /// Source  XDG Base Directory Specification 0.8.
  static std::filesystem::path usual_folder();

  /// `name` is a SHA-256 of all that the code depends on, in hexadecimal digits.
  std::optional<std::vector<std::byte>> find(const std::string& name) const;
  void keep(const std::string& name, std::span<const std::byte> code) const;

private:
  std::filesystem::path file_of(const std::string& name) const { return folder_ / (name + ".kernel"); }
  void forget_oldest() const;

  std::filesystem::path folder_;
  std::uintmax_t most_bytes_;
};

} // namespace mailgrad::cuda
