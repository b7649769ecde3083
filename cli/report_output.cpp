#include <mailgrad/cli/report_output.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

[[noreturn]] void cannot_write(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), "report '" + path + "' cannot be written");
}

std::string partial(const std::string& path) { return path + ".partial"; }

/// A file can be replaced in one step; what else has a name (a pipe, a device) is written into.
bool replaceable(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

/// Where a link leads, so that the file is replaced and not the link.
std::string without_links(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, unknown);
  return unknown || !replaceable(path) ? path : real.string();
}

std::string formatted(const char* format, double figure) {
  char text[64];
  std::snprintf(text, sizeof text, format, figure);
  return text;
}

std::string staleness_in_words(const staleness_histogram& h) {
  if (h.empty()) return "no gradient was applied";
  return "mean " + formatted("%.2f", h.mean()) + ", p50 " + std::to_string(h.quantile(0.5)) + ", p99 " +
         std::to_string(h.quantile(0.99)) + ", max " + std::to_string(h.max());
}

} // namespace

report_output::report_output(const std::string& path) : path_(path.empty() ? path : without_links(path)) {
  if (path_.empty()) return;
  errno = EISDIR;
  if (std::filesystem::is_directory(path_)) cannot_write(path_);
  if (!replaceable(path_)) return; // to open a pipe is to wait for its reader
  errno = 0;
  const bool writable = std::ofstream(partial(path_), std::ios::app).is_open();
  if (!writable) cannot_write(path_);
  std::error_code ignored;
  std::filesystem::remove(partial(path_), ignored); // whatever ends the run now leaves nothing behind
}

void report_output::write(const training_report& r) const {
  if (path_.empty()) return;
  const std::string target = replaceable(path_) ? partial(path_) : path_;
  errno = 0;
  std::ofstream file(target, std::ios::trunc);
  file << to_json(r) << '\n';
  file.close();
  if (!file) {
    const std::string why = std::generic_category().message(errno);
    std::error_code ignored;
    if (target != path_) std::filesystem::remove(target, ignored);
    throw std::runtime_error("report '" + path_ + "' cannot be written: " + why);
  }
  if (target != path_) std::filesystem::rename(target, path_);
}

std::string introduction(const training_options& o, const data_split& data, const training& run) {
  std::string devices;
  for (const device d : o.devices) devices += (devices.empty() ? "" : ", ") + to_string(d);
  return data.name + ": " + std::to_string(data.train.size()) + " samples to train on, " +
         std::to_string(data.test.size()) + " to test on, " + std::to_string(data.train.classes()) +
         " classes\n" + o.policy + " on " + devices + "; " + run.layout().balance_in_words();
}

std::string in_words(const training_report& r) {
  std::string text = r.ended + " after " + std::to_string(r.steps) + " steps, " + std::to_string(r.samples) +
                     " samples, " + formatted("%.2f s", r.wall_seconds) + ": " +
                     formatted("%.0f samples/s", r.samples_per_second()) + '\n';
  if (r.final_loss) text += "final loss    " + formatted("%.4f", *r.final_loss) + '\n';
  if (r.test_accuracy) text += "test accuracy " + formatted("%.4f", *r.test_accuracy) + '\n';
  text += "staleness     " + staleness_in_words(r.staleness) + '\n';
  if (r.cure != "none")
    text += "cure          " + r.cure +
            (r.mean_step_factor ? formatted(", mean factor %.4f", *r.mean_step_factor) : "") + '\n';
  text += "waiting       " + formatted("%.2f s at barriers, ", r.waits.barrier) +
          formatted("%.2f s at a bound, ", r.waits.bound) + formatted("%.2f s for batches", r.waits.feeder) +
          '\n';
  for (const policy_switch& s : r.switches)
    text += "switched      from " + s.from + " to " + s.to + " after step " + std::to_string(s.step) + ": " +
            s.why + '\n';
  text += "gradients     " + to_string(r.ledger) + '\n';
  return text + "parameters    sha256 " + r.parameters_sha256 + '\n';
}

} // namespace mailgrad
