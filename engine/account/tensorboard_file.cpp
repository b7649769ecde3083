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
      steps_before_(start.steps_before), last_{unix_seconds(start.date), start.resumed_at.value_or(0)},
      switches_(start.switches), path_(new_file(folder, start.date)) {
  errno = 0;
  out_.open(path_, std::ios::binary | std::ios::app);
  if (!out_) cannot_write(folder, {errno, std::generic_category()});
  write(version_event(last_.wall_time));
  if (start.resumed_at) write(resume_event({last_.wall_time, *start.resumed_at + 1}));
  if (!start.options.empty()) write(options_event(last_.wall_time, start.options));
  if (!start.policy.empty()) tell_policy(last_, fmt::format("`{}`", start.policy));
}

void tensorboard_file::add(const metrics_line& x) {
  last_ = moment_of(x.time_s, x.steps);
  write(scalars_event(last_, x));
}

void tensorboard_file::add(const gaps_measured& x) {
  write(gaps_event(moment_of(x.time_s, x.steps), x.gaps));
}

void tensorboard_file::add(const policy_switch& x) {
  ++switches_;
  tell_policy({last_.wall_time, x.step},
              fmt::format("`{}`, after `{}` until step {}: {}", x.to, x.from, x.step, x.why));
}

void tensorboard_file::tell_policy(const board_moment& when, const std::string& markdown) {
  write(text_event(when, "policy", markdown));
  write(count_event(when, "policy/switches", switches_));
}

void tensorboard_file::add(const members_changed& x) {
  write(text_event(last_, "members", x.what));
  write(count_event(last_, "members/workers", x.workers));
  write(count_event(last_, "members/parameter_hosts", x.parameter_hosts));
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
