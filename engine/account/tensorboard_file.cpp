#include <mailgrad/engine/account/tensorboard_file.hpp>

#include <mailgrad/engine/account/provenance.hpp>
#include <mailgrad/files/tf_record.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& folder, std::error_code why) {
  throw std::system_error(why, fmt::format("tensorboard '{}' cannot be written", folder));
}

double unix_seconds(calendar_time date) {
  return std::chrono::duration<double>(date.time_since_epoch()).count();
}

/// Makes an empty file that nobody else has. TensorBoard reads the files of a folder in the order of their
/// names.
fs::path new_file(const std::string& folder, calendar_time date) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why) cannot_write(folder, why);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(date.time_since_epoch()).count();
  const std::string host = this_program().host;
  for (int i = 0;; ++i) {
    fs::path path = fs::path(folder) / fmt::format("events.out.tfevents.{:010}.{}.{:02}", seconds, host, i);
    const int made = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made < 0 && errno == EEXIST) continue;
    if (made < 0) cannot_write(folder, {errno, std::generic_category()});
    close(made);
    return path;
  }
}

} // namespace

tensorboard_file::tensorboard_file(const std::string& folder, const board_start& start)
    : time_zero_(unix_seconds(start.date) - in_seconds(start.elapsed_before)),
      steps_before_(start.steps_before), path_(new_file(folder, start.date)) {
  errno = 0;
  out_.open(path_, std::ios::binary | std::ios::app);
  if (!out_) cannot_write(folder, {errno, std::generic_category()});
  write(version_event(unix_seconds(start.date)));
  if (start.resumed_at) write(resume_event({unix_seconds(start.date), *start.resumed_at + 1}));
}

void tensorboard_file::add(const metrics_line& x) { write(scalars_event(moment_of(x.time_s, x.steps), x)); }

void tensorboard_file::add(const gaps_measured& x) {
  write(gaps_event(moment_of(x.time_s, x.steps), x.gaps));
}

board_moment tensorboard_file::moment_of(double time_s, std::uint64_t steps) const noexcept {
  return {time_zero_ + time_s, steps_before_ + steps};
}

void tensorboard_file::write(const std::string& event) {
  if (!failure_.empty()) return;
  errno = 0;
  out_ << tf_record(event) << std::flush;
  if (out_) return;
  failure_ =
      fmt::format("tensorboard '{}' ends early: {}", path_.string(), std::generic_category().message(errno));
  out_.close();
}

} // namespace mailgrad
