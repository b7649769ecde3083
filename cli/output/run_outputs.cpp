#include <mailgrad/cli/output/run_outputs.hpp>

#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <ostream>
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

namespace fs = std::filesystem;

namespace {

bool all_finite(std::span<const named_weights> weights) {
  return std::ranges::all_of(weights, [](const named_weights& w) {
    return std::ranges::all_of(w.values, [](float v) { return std::isfinite(v); });
  });
}

/// The place for weights that cannot be written where they should be.
fs::path rescue_file(const std::string& path) {
  std::error_code none;
  fs::path folder = fs::temp_directory_path(none);
  if (none) folder = "/tmp";
  return folder / fmt::format("{}-{}.rescued", fs::path(path).filename().string(), getpid());
}

/// The bytes beyond which no file of this process grows.
std::uint64_t longest_file() {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) == 0 ? most.rlim_cur : RLIM_INFINITY;
}

} // namespace

weights_output::weights_output(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  if (path_ == output_file::standard_output)
    throw std::invalid_argument(
        "--save: weights are no output for a pipe; name a file, './-' for one of that name");
  const output_file checked("weights", path_); // refuses a folder, or a place that cannot be written
  if (!replaced_file::can_replace(path_))
    throw std::invalid_argument(fmt::format("--save: '{}' is a pipe or a device; name a file", path_));
}

void weights_output::require_room(const parameter_layout& layout, const model_card& card) const {
  if (path_.empty()) return;
  const fs::path folder = fs::path(replaced_file::without_links(path_)).parent_path();
  std::error_code unknown;
  const fs::space_info disk = fs::space(folder.empty() ? "." : folder, unknown);
  const std::uint64_t needed = bytes_to_save(layout, card);
  if (const std::uint64_t most = longest_file(); most < needed)
    throw std::runtime_error(
        fmt::format("weights '{}' need {}, and a file of this process may have {}; raise 'ulimit -f'", path_,
                    byte_count(needed).text(), byte_count(most).text()));
  if (unknown || disk.available >= needed) return;
  throw std::runtime_error(
      fmt::format("weights '{}' need {}, and the disk has {} left; make {} of room, or name a file on "
                  "another disk",
                  path_, byte_count(needed).text(), byte_count(disk.available).text(),
                  byte_count(needed - disk.available).text()));
}

void weights_output::write(std::span<const named_weights> weights, const model_card& card,
                           const training_report& r) const {
  if (path_.empty()) return;
  if (weights.empty())
    throw std::runtime_error(fmt::format("weights '{}' are not written: a part of them was lost", path_));
  if (r.ended == "diverged" && !r.best)
    throw std::runtime_error(fmt::format("weights '{}' are not written: the run has diverged", path_));
  if (!all_finite(weights))
    throw std::runtime_error(fmt::format("weights '{}' are not written: not all are finite numbers", path_));
  const std::string report = to_json(r);
  try {
    save_weights(path_, weights, card, report);
  } catch (const std::exception& first) {
    const fs::path rescue = rescue_file(path_);
    std::string where = fmt::format("they are in '{}'", rescue.string());
    try {
      save_weights(rescue, weights, card, report);
    } catch (const std::exception& second) {
      where = fmt::format("nor could they be rescued: {}", second.what());
    }
    throw std::runtime_error(fmt::format("weights {}; {}", first.what(), where));
  }
}

std::string format_loaded(const saved_weights& from, const parameter_layout& layout) {
  const weights_fit found = fit(from, layout, std::vector<float>(layout.size()));
  std::string text = fmt::format("took {} of {} variables of '{}'\n", found.taken.size(),
                                 layout.variables().size(), from.file);
  for (const std::string& line : found.differences) text += "  " + line + '\n';
  return text;
}

namespace {

void require_metrics_apart(const output_paths& paths) {
  if (paths.metrics == output_file::standard_output)
    throw std::invalid_argument("--metrics: the lines go to a file; name one, './-' for one of that name");
  if (paths.tensorboard == output_file::standard_output)
    throw std::invalid_argument("--tensorboard: events go to a folder; name one, './-' for one of that name");
  const output_file metrics("metrics", paths.metrics);
  for (const auto& [option, path] :
       {std::pair{"--report", &paths.report}, std::pair{"--staleness-csv", &paths.staleness_csv},
        std::pair{"--trace", &paths.trace}, std::pair{"--record", &paths.record},
        std::pair{"--save", &paths.save}})
    if (metrics.same_file(output_file("output", *path)))
      throw std::invalid_argument(
          fmt::format("--metrics and {} both name '{}'; give each a file of its own", option, *path));
}

} // namespace

bool is_output_option(std::string_view option) {
  constexpr std::array<std::string_view, 7> all{"--report",  "--save",        "--staleness-csv", "--trace",
                                                "--metrics", "--tensorboard", "--record"};
  return std::ranges::find(all, option) != all.end();
}

run_outputs::run_outputs(const output_paths& paths, const std::vector<input_file>& inputs)
    : report_("report", paths.report), staleness_csv_("staleness histogram", paths.staleness_csv),
      trace_("trace", paths.trace), weights_(paths.save) {
  if (paths.record == output_file::standard_output)
    throw std::invalid_argument(
        "--record: a recording is no output for a pipe; name a file, './-' for one of that name");
  const auto require_two = [](const output_file& a, const output_file& b, const std::string& options,
                              const std::string& path) {
    if (a.same_file(b))
      throw std::invalid_argument(
          fmt::format("{} both name '{}'; give each a file of its own", options, path));
  };
  require_two(report_, staleness_csv_, "--report and --staleness-csv", paths.report);
  require_two(report_, trace_, "--report and --trace", paths.report);
  require_two(staleness_csv_, trace_, "--staleness-csv and --trace", paths.trace);
  const output_file record("recording", paths.record);
  if (!paths.record.empty() && std::filesystem::is_fifo(paths.record))
    throw std::invalid_argument(
        fmt::format("--record: '{}' is a pipe, and a recording is none; name a file", paths.record));
  require_two(report_, record, "--report and --record", paths.record);
  require_two(staleness_csv_, record, "--staleness-csv and --record", paths.record);
  require_two(trace_, record, "--trace and --record", paths.record);
  const output_file save("weights", paths.save);
  require_two(report_, save, "--report and --save", paths.report);
  require_two(staleness_csv_, save, "--staleness-csv and --save", paths.save);
  require_two(trace_, save, "--trace and --save", paths.save);
  require_two(record, save, "--record and --save", paths.save);
  require_metrics_apart(paths);
  require_no_input("--report", paths.report, inputs);
  require_no_input("--staleness-csv", paths.staleness_csv, inputs);
  require_no_input("--trace", paths.trace, inputs);
  require_no_input("--record", paths.record, inputs);
  require_no_input("--save", paths.save, inputs);
  require_no_input("--metrics", paths.metrics, inputs);
}

bool run_outputs::take_standard_output() const {
  return report_.is_standard_output() || staleness_csv_.is_standard_output() || trace_.is_standard_output();
}

std::vector<std::string> run_outputs::write(const training_report& r, const run_trace& trace,
                                            std::span<const named_weights> weights,
                                            const model_card& card) const {
  std::vector<std::string> failures;
  const auto try_to = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const std::exception& e) {
      failures.emplace_back(e.what());
    }
  };
  try_to([&] { weights_.write(weights, card, r); });
  try_to([&] { report_.write([&](std::ostream& out) { out << to_json(r) << '\n'; }); });
  try_to([&] { staleness_csv_.write([&](std::ostream& out) { out << staleness_csv(r); }); });
  try_to([&] { trace_.write([&](std::ostream& out) { write_trace(out, trace); }); });
  return failures;
}

} // namespace mailgrad
