#pragma once

#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// The parts of a checkpoint by name: "run", "feeder", "worker 0", "shard 0".
using checkpoint_parts = std::map<std::string, std::shared_ptr<const saved_fields>>;

/// Writes a checkpoint, a safetensors file: the arrays of all parts, their other fields in its texts, and a
/// checksum of each part. The file takes the place of an older one when all of it is on the disk.
///
/// Returns  the size of the file in bytes.
/// Errors   file_error if the file cannot be written; it then does not exist, or is the older one.
std::uint64_t write_checkpoint_file(const std::filesystem::path& path, const checkpoint_parts& parts);

/// A checkpoint that was read whole. Its checksums are right.
///
/// Threads  any.
class checkpoint {
public:
  /// Errors  file_error in one line: the file cannot be read, is no checkpoint, is cut short or damaged.
  static checkpoint read(const std::filesystem::path& path);

  /// A checkpoint that was not written to a file; `name` stands for its path.
  static checkpoint of(const checkpoint_parts& parts, const std::string& name);

  const std::filesystem::path& path() const noexcept { return path_; }
  bool has(const std::string& part) const { return parts_.contains(part); }
  /// The fields of a part, to be read by one object.
  ///
  /// Errors  archive_error if there is no such part.
  std::shared_ptr<saved_fields> part(const std::string& name) const;

  /// Reads an object that is a part of its own.
  template <kept T>
  T object(const std::string& name) const {
    T x{};
    part(name)->field(name, x);
    return x;
  }

private:
  struct stored {
    std::string text;
    std::vector<archived_array> arrays;
  };

  explicit checkpoint(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::map<std::string, stored> parts_;
};

} // namespace mailgrad
