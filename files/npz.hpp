#pragma once

#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct zip; // of libzip

namespace mailgrad {

/// An array in an archive of numpy.
struct npz_array {
  std::string name; ///< of the entry, without ".npy"
  npy_header header;
  std::uint64_t entry = 0; ///< its number in the archive
  std::uint64_t bytes = 0; ///< of the entry, unpacked
};

/// Closes an archive of libzip, and writes nothing to it.
struct zip_closer {
  void operator()(zip* archive) const noexcept;
};

/// A file of numpy.savez or numpy.savez_compressed, open for reading: named arrays of numbers in a zip
/// archive.
///
/// Every header is checked before memory is taken for a number: names come once, and the size that the
/// archive states is that of the header's shape and type, and no more than its packed bytes can hold. The
/// checksum of an array is checked when it is read.
///
/// Source  numpy.lib.format; APPNOTE.TXT of PKWARE, as libzip reads it.
/// Errors  file_error in one line with the array, what was expected and what was found.
/// Threads one caller at a time.
class npz_file {
public:
  /// Arrays that `wanted` does not name are passed over if they hold no numbers. Without names, all are
  /// wanted.
  explicit npz_file(const std::filesystem::path& path, const std::vector<std::string>& wanted = {});

  /// Whether a file begins as zip archives do.
  static bool is_npz(const std::filesystem::path& path);

  const std::filesystem::path& file() const noexcept { return path_; }
  const std::vector<npz_array>& arrays() const noexcept { return arrays_; }
  /// The names of those that hold no numbers.
  const std::vector<std::string>& passed_over() const noexcept { return passed_over_; }
  /// The array of that name, or null.
  const npz_array* find(std::string_view name) const noexcept;

  /// Opens an array for reading, as if it were a file of its own. The archive must outlive it.
  npy_file open(const npz_array& what) const;
  /// Reads the numbers of an array, and converts them.
  /// Errors  file_error also for a number that `to` cannot hold: one beyond float32, or a fraction among
  ///         int32; std::invalid_argument for another length of `to`.
  void read(const npz_array& what, std::span<float> to);
  void read(const npz_array& what, std::span<std::int32_t> to);
  void read(const npz_array& what, std::span<std::uint8_t> to);

private:
  npz_array checked(std::uint64_t entry) const;
  template <class To>
  void read_as(const npz_array& what, std::span<To> to);

  std::filesystem::path path_;
  std::uint64_t file_bytes_ = 0;
  std::unique_ptr<zip, zip_closer> archive_;
  std::vector<npz_array> arrays_;
  std::vector<std::string> passed_over_;
};

/// Writes arrays of float32, and texts as arrays of bytes, so that numpy.load opens them. The file takes the
/// place of an older one when all of it is on the disk; a failure leaves the older one as it was.
/// Errors  std::invalid_argument for a name that comes twice, or values that do not fit their shape;
///         file_error if the file cannot be written.
void write_npz(const std::filesystem::path& path, std::span<const array_to_store> arrays,
               const std::map<std::string, std::string>& texts);

} // namespace mailgrad
