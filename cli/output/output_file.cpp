#include <mailgrad/cli/output/output_file.hpp>

#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

/// Whether a file can be created or overwritten there. It creates none, because another run may do so.
bool is_writable(const std::string& path) {
  if (access(path.c_str(), W_OK) == 0) return true;
  if (errno != ENOENT) return false;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

/// Keeps a pipe open, so that its reader sees no end before something is written. It does nothing for any
/// other kind of file.
class held_pipe {
public:
  explicit held_pipe(const std::string& path) {
    std::error_code unknown;
    if (!std::filesystem::is_fifo(path, unknown)) return;
    descriptor_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    lacks_reader_ = descriptor_ < 0 && errno == ENXIO;
  }
  ~held_pipe() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  held_pipe(const held_pipe&) = delete;
  held_pipe& operator=(const held_pipe&) = delete;

  bool lacks_reader() const noexcept { return lacks_reader_; }

private:
  int descriptor_ = -1;
  bool lacks_reader_ = false;
};

[[noreturn]] void cannot_write(const std::string& what, const std::string& path) {
  const int why = errno; // which formatting may change
  throw std::system_error(why, std::generic_category(), fmt::format("{} '{}' cannot be written", what, path));
}

/// Names the reason at once, because a stream that has failed forgets it. Somebody who reads a pipe no more
/// knows of the loss, so that is no error; main() passes over it as well.
void write_to_standard_output(const std::function<void(std::ostream&)>& content) {
  errno = 0;
  content(std::cout);
  std::cout.flush();
  const int why = errno;
  if (std::cout || why == 0) return;
  std::cout.clear();
  if (why != EPIPE)
    throw std::runtime_error("standard output cannot be written: " + std::generic_category().message(why));
}

} // namespace

output_file::output_file(std::string what, const std::string& path)
    : what_(std::move(what)),
      path_(path.empty() || path == standard_output ? path : replaced_file::without_links(path)) {
  if (path_.empty() || is_standard_output()) return;
  errno = EISDIR;
  if (std::filesystem::is_directory(path_)) cannot_write(what_, path_);
  if (!replaced_file::can_replace(path_)) return; // opening a pipe would wait for its reader
  if (!is_writable(replaced_file::partial(path_))) cannot_write(what_, path_);
}

bool output_file::same_file(const output_file& other) const {
  if (is_standard_output()) return other.is_standard_output();
  return !path_.empty() && path_ == other.path_ && replaced_file::can_replace(path_);
}

void output_file::write(const std::function<void(std::ostream&)>& content) const {
  if (path_.empty()) return;
  if (is_standard_output()) return write_to_standard_output(content);
  const held_pipe pipe(path_);
  if (pipe.lacks_reader())
    std::cerr << what_ + " '" + path_ + "' is a pipe: waiting until somebody reads it\n";
  replaced_file file(path_);
  content(file);
  if (const int why = file.keep(); why != 0)
    throw std::runtime_error(
        fmt::format("{} '{}' cannot be written: {}", what_, path_, std::generic_category().message(why)));
}

} // namespace mailgrad
