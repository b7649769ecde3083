#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <stdexcept>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view earlier_prefix = "best-weights-";

void write(const fs::path& folder, kept_best& best) {
  const auto fields = std::make_shared<saved_fields>();
  fields->field("best", best);
  write_checkpoint_file(folder / best_weights::file_name, {{best_weights_part, fields}});
}

std::string not_kept(const std::exception& why) {
  return std::string("the best weights are not kept for a resume: ") + why.what();
}

struct kept_test : kept_best {
  void keep(archive& a) { keep_test(a); }
};

[[noreturn]] void refuse_best(const std::string& why) {
  throw std::runtime_error(why + "; move that file away to go on without the best weights so far");
}

/// Why the test of a file cannot be read; nothing if it can.
std::optional<std::string> damage_of(const fs::path& file) {
  try {
    read_best_test(file);
    return std::nullopt;
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// Whether an unreadable file of best weights may be the one that a run goes on from. Later ones did better.
bool may_be_needed(const fs::path& folder, const fs::path& file, const tested_history& history,
                   const std::optional<kept_best>& found) {
  if (history.lowest_loss) return !found || found->test.loss > *history.lowest_loss;
  for (const auto& [steps, earlier] : earlier_best_files(folder))
    if (earlier == file) return steps <= history.steps;
  return true;
}

/// Removes the earlier ones on which no checkpoint stands, when the best are those of a test after `newest`
/// steps. The last before these stay in any case, since a checkpoint may be being written. Two stay for each
/// checkpoint: of the last test before it, and of the next one, which may have begun before its end.
void remove_unneeded(const fs::path& folder, std::uint64_t newest) {
  std::vector<std::uint64_t> stand; // the checkpoints that are older than the newest
  for (const fs::path& file : checkpoints_in(folder))
    if (const std::uint64_t steps = steps_named_in(folder, file); steps < newest) stand.push_back(steps);
  const numbered_files files = earlier_best_files(folder);
  for (std::size_t i = 1; i < files.size(); ++i) { // from the last but one
    const std::uint64_t later = files[i - 1].first, earlier = i + 1 < files.size() ? files[i + 1].first : 0;
    const bool needed =
        std::ranges::any_of(stand, [=](std::uint64_t s) { return earlier <= s && s < later; });
    std::error_code stays;
    if (!needed) fs::remove(files[i].second, stays);
  }
}

/// Keeps the best weights in a folder, and those of a test after `before` steps as earlier ones.
void replace(const fs::path& folder, std::optional<std::uint64_t> before, kept_best& best) {
  std::error_code none;
  if (before) fs::rename(folder / best_weights::file_name, earlier_best_file(folder, *before), none);
  write(folder, best);
  remove_unneeded(folder, best.test.steps);
}

/// Errors  std::runtime_error in one line: the file is damaged, or of another kind.
kept_best read_best_weights(const fs::path& file) {
  try {
    kept_best best;
    checkpoint::read(file).part(best_weights_part)->field("best", best);
    return best;
  } catch (const std::exception& e) {
    refuse_best(e.what());
  }
}

} // namespace

void kept_best::keep_test(archive& a) {
  a.version(1);
  a.fields({"steps", "loss", "accuracy", "rmse", "seconds", "held out"}, test.steps, test.loss, test.accuracy,
           test.rmse, test.seconds, test.held_out);
}

void kept_best::keep(archive& a) {
  keep_test(a);
  if (a.reads()) {
    const std::span<const float> values = a.array("weights").values;
    weights.assign(values.begin(), values.end());
  } else {
    a.hold("weights", nullptr, weights); // this object lives until they are in the file
  }
}

best_weights::best_weights(std::optional<fs::path> folder, std::optional<kept_best> before)
    : folder_(std::move(folder)), best_(std::move(before)) {}

void best_weights::begin() {
  const std::lock_guard guard(mutex_);
  if (!folder_ || !best_) return;
  const fs::path file = *folder_ / file_name;
  std::error_code unknown;
  if (fs::exists(file, unknown)) {
    if (!damage_of(file)) return;
    const fs::path damaged = file.string() + ".damaged";
    fs::rename(file, damaged, unknown);
  }
  try {
    write(*folder_, *best_);
  } catch (const std::exception& e) {
    failure_ = not_kept(e);
  }
}

void best_weights::offer(const evaluation_made& test, std::span<const float> weights) {
  const std::lock_guard guard(mutex_);
  const bool better = best_ ? test.loss < best_->test.loss : !std::isnan(test.loss);
  if (!better) return;
  const auto before = best_ ? std::optional(best_->test.steps) : std::nullopt;
  if (!best_) best_.emplace();
  best_->test = test;
  best_->weights.assign(weights.begin(), weights.end());
  if (!folder_) return;
  try {
    replace(*folder_, before, *best_);
    failure_.clear();
  } catch (const std::exception& e) {
    failure_ = not_kept(e);
  }
}

fs::path earlier_best_file(const fs::path& folder, std::uint64_t steps) {
  return folder / fmt::format("{}{:010}{}", earlier_prefix, steps, checkpoint_suffix);
}

numbered_files earlier_best_files(const fs::path& folder) {
  return numbered_files_in(folder, earlier_prefix);
}

evaluation_made read_best_test(const fs::path& file) {
  const auto texts = safetensors_file(file).metadata();
  if (kind_of(texts) != kind_of_file::best_weights)
    throw_malformed(file, "expected the best weights of a run, found a file of another kind");
  kept_test best;
  saved_fields(texts.at(best_weights_part), {}).field("best", best);
  return best.test;
}

found_best best_weights_in(const fs::path& folder, const tested_history& history) {
  std::vector<fs::path> files{folder / best_weights::file_name};
  for (const auto& [steps, file] : earlier_best_files(folder)) files.push_back(file);
  found_best found;
  std::vector<std::pair<fs::path, std::string>> damaged;
  for (const fs::path& file : files) {
    if (std::error_code unknown; !fs::exists(file, unknown)) continue;
    if (auto why = damage_of(file))
      damaged.emplace_back(file, *std::move(why));
    else if (history.has(read_best_test(file))) {
      found.best = read_best_weights(file);
      break;
    }
  }
  for (const auto& [file, why] : damaged) {
    if (may_be_needed(folder, file, history, found.best)) refuse_best(why);
    found.passed_over.push_back(fmt::format("passed over a damaged file that is not needed: {}", why));
  }
  return found;
}

} // namespace mailgrad
