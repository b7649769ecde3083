#include <mailgrad/cli/output/run_outputs.hpp>

#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/data/files.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <system_error>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

/// Whether a file can be created or overwritten there. It creates none, because another run may do so.
bool is_writable(const std::string& path) {
  if (access(path.c_str(), W_OK) == 0) return true;
  if (errno != ENOENT) return false;
  const std::string folder = fs::path(path).parent_path().string();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

/// Keeps a pipe open, so that its reader sees no end before something is written. It does nothing for any
/// other kind of file.
class held_pipe {
public:
  explicit held_pipe(const std::string& path) {
    std::error_code unknown;
    if (!fs::is_fifo(path, unknown)) return;
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

std::uint64_t longest_file() {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) == 0 ? most.rlim_cur : RLIM_INFINITY;
}

struct named_output {
  const char* option;
  const char* what;
  const std::string& path;
};

void require_weights_file(const std::string& path) {
  if (path.empty()) return;
  if (path == output_file::standard_output)
    reject("--save: weights are no output for a pipe; name a file, './-' for one of that name");
  const output_file checked("weights", path); // refuses a folder, or a place that cannot be written
  if (!replaced_file::can_replace(path)) reject("--save: '{}' is a pipe or a device; name a file", path);
}

/// The run itself writes --metrics and --tensorboard while it goes on: a file that no other output names, and
/// a folder. Neither can be standard output.
void require_metrics_apart(const output_paths& paths, std::span<const named_output> others) {
  if (paths.metrics == output_file::standard_output)
    reject("--metrics: the lines go to a file; name one, './-' for one of that name");
  if (paths.tensorboard == output_file::standard_output)
    reject("--tensorboard: events go to a folder; name one, './-' for one of that name");
  const output_file metrics("metrics", paths.metrics);
  for (const named_output& o : others)
    if (metrics.same_file(output_file("output", o.path)))
      reject("--metrics and {} both name '{}'; give each a file of its own", o.option, o.path);
}

std::vector<input_file> plugin_files_of(const run_inputs& in) {
  std::vector<input_file> files;
  for (const std::string& file : plugins_of_policy(in.policy)) files.push_back({"--policy", file});
  for (const std::string& file : plugins_of_cure(in.cure)) files.push_back({"--cure", file});
  for (const std::string& optimizer : in.optimizers)
    if (const std::string file = optimizer.substr(0, optimizer.find(':')); names_a_plugin(file))
      files.push_back({"--optimizer", file});
  return files;
}

} // namespace

std::vector<input_file> files_of(const run_inputs& in) {
  std::vector<input_file> all{{"--model", in.model}};
  if (!in.data.empty())
    for (const auto& file : find_files(in.data, {}).all()) all.push_back({"--data", file});
  if (!in.load.empty()) all.push_back({"--load", in.load});
  for (const input_file& plugin : plugin_files_of(in)) all.push_back(plugin);
  if (in.replay) all.push_back({"the recording", in.replay->name});
  return all;
}

void require_no_input(const std::string& option, const std::string& path,
                      const std::vector<input_file>& inputs) {
  for (const input_file& in : inputs) {
    std::error_code nothing_there;
    if (!path.empty() && fs::equivalent(path, in.path, nothing_there))
      reject("{} and {} both name '{}'; name another file to write", option, in.option, path);
  }
}

void announce_plugins(const run_inputs& in) {
  if (!in.replay) return;
  for (const input_file& plugin : plugin_files_of(in)) {
    const std::string sum = require_recorded_plugin(*in.replay, plugin.path);
    say_line("loading the plug-in of the recording: " + plugin.path + ", SHA-256 " + sum);
  }
}

output_file::output_file(std::string what, const std::string& path)
    : what_(std::move(what)),
      path_(path.empty() || path == standard_output ? path : replaced_file::without_links(path)) {
  if (path_.empty() || is_standard_output()) return;
  errno = EISDIR;
  if (fs::is_directory(path_)) cannot_write(what_, path_);
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

void run_outputs::require_room(const parameter_layout& layout, const model_card& card) const {
  if (weights_.empty()) return;
  const fs::path folder = fs::path(replaced_file::without_links(weights_)).parent_path();
  std::error_code unknown;
  const fs::space_info disk = fs::space(folder.empty() ? "." : folder, unknown);
  const std::uint64_t needed = bytes_to_save(layout, card);
  if (const std::uint64_t most = longest_file(); most < needed)
    throw std::runtime_error(
        fmt::format("weights '{}' need {}, and a file of this process may have {}; raise 'ulimit -f'",
                    weights_, byte_count(needed).text(), byte_count(most).text()));
  if (unknown || disk.available >= needed) return;
  throw std::runtime_error(fmt::format(
      "weights '{}' need {}, and the disk has {} left; make {} of room, or name a file on another disk",
      weights_, byte_count(needed).text(), byte_count(disk.available).text(),
      byte_count(needed - disk.available).text()));
}

void run_outputs::write_weights(std::span<const named_weights> weights, const model_card& card,
                                const training_report& r) const {
  if (weights_.empty()) return;
  const char* why_not = weights.empty()                    ? "a part of them was lost"
                        : r.ended == "diverged" && !r.best ? "the run has diverged"
                        : !all_finite(weights)             ? "not all are finite numbers"
                                                           : nullptr;
  if (why_not) throw std::runtime_error(fmt::format("weights '{}' are not written: {}", weights_, why_not));
  const std::string report = to_json(r);
  try {
    save_weights(weights_, weights, card, report);
  } catch (const std::exception& first) {
    const fs::path rescue = rescue_file(weights_);
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

bool is_output_option(std::string_view option) {
  constexpr std::array<std::string_view, 7> all{"--report",  "--save",        "--staleness-csv", "--trace",
                                                "--metrics", "--tensorboard", "--record"};
  return std::ranges::find(all, option) != all.end();
}

run_outputs::run_outputs(const output_paths& paths, const std::vector<input_file>& inputs)
    : report_("report", paths.report), staleness_csv_("staleness histogram", paths.staleness_csv),
      trace_("trace", paths.trace), weights_(paths.save) {
  require_weights_file(paths.save);
  if (paths.record == output_file::standard_output)
    reject("--record: a recording is no output for a pipe; name a file, './-' for one of that name");
  const std::array<named_output, 5> all{{{"--report", "report", paths.report},
                                         {"--staleness-csv", "staleness histogram", paths.staleness_csv},
                                         {"--trace", "trace", paths.trace},
                                         {"--record", "recording", paths.record},
                                         {"--save", "weights", paths.save}}};
  std::vector<output_file> files;
  for (const named_output& o : all) {
    files.emplace_back(o.what, o.path);
    if (&o.path == &paths.record && !o.path.empty() && fs::is_fifo(o.path))
      reject("--record: '{}' is a pipe, and a recording is none; name a file", o.path);
    for (std::size_t i = 0; i + 1 < files.size(); ++i)
      if (files[i].same_file(files.back()))
        reject("{} and {} both name '{}'; give each a file of its own", all[i].option, o.option,
               i == 0 ? paths.report : o.path);
  }
  require_metrics_apart(paths, all);
  for (const named_output& o : all) require_no_input(o.option, o.path, inputs);
  require_no_input("--metrics", paths.metrics, inputs);
}

bool run_outputs::take_standard_output() const {
  return report_.is_standard_output() || staleness_csv_.is_standard_output() || trace_.is_standard_output();
}

void run_outputs::print_summary(const std::string& text) const {
  const bool elsewhere = take_standard_output();
  (elsewhere ? std::cerr : std::cout) << fitted_to(elsewhere ? STDERR_FILENO : STDOUT_FILENO, text);
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
  try_to([&] { write_weights(weights, card, r); });
  try_to([&] { report_.write([&](std::ostream& out) { out << to_json(r) << '\n'; }); });
  try_to([&] { staleness_csv_.write([&](std::ostream& out) { out << staleness_csv(r); }); });
  try_to([&] { trace_.write([&](std::ostream& out) { write_trace(out, trace); }); });
  return failures;
}

} // namespace mailgrad
