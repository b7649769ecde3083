#include <mailgrad/cli/output/weights_output.hpp>

#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/tensor/byte_count.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace mailgrad {

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

std::string loaded_in_words(const saved_weights& from, const parameter_layout& layout) {
  const weights_fit found = fit(from, layout, std::vector<float>(layout.size()));
  std::string text = fmt::format("took {} of {} variables of '{}'\n", found.taken.size(),
                                 layout.variables().size(), from.file);
  for (const std::string& line : found.differences) text += "  " + line + '\n';
  return text;
}

} // namespace mailgrad
