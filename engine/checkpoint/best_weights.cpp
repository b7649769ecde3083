#include <mailgrad/engine/checkpoint/best_weights.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_file.hpp>
#include <mailgrad/engine/weights/kind_of_file.hpp>

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

void write(const std::filesystem::path& folder, kept_best& best) {
  const auto fields = std::make_shared<saved_fields>();
  fields->field("best", best);
  write_checkpoint_file(folder / best_weights::file_name, {{best_weights_part, fields}});
}

} // namespace

void kept_best::keep(archive& a) {
  a.version(1);
  a.field("steps", test.steps);
  a.field("loss", test.loss);
  a.field("accuracy", test.accuracy);
  a.field("rmse", test.rmse);
  a.field("seconds", test.seconds);
  a.field("held out", test.held_out);
  if (a.reads()) {
    const std::span<const float> values = a.array("weights").values;
    weights.assign(values.begin(), values.end());
  } else {
    a.hold("weights", nullptr, weights); // this object lives until they are in the file
  }
}

best_weights::best_weights(std::optional<std::filesystem::path> folder, std::optional<kept_best> before)
    : folder_(std::move(folder)), best_(std::move(before)) {}

void best_weights::offer(const evaluation_made& test, std::span<const float> weights) {
  const std::lock_guard guard(mutex_);
  const bool better = best_ ? test.loss < best_->test.loss : !std::isnan(test.loss);
  if (!better) return;
  if (!best_) best_.emplace();
  best_->test = test;
  best_->weights.assign(weights.begin(), weights.end());
  if (!folder_) return;
  try {
    write(*folder_, *best_);
    failure_.clear();
  } catch (const std::exception& e) {
    failure_ = std::string("the best weights are not kept for a resume: ") + e.what();
  }
}

std::optional<kept_best> best_weights::best() const {
  const std::lock_guard guard(mutex_);
  return best_;
}

std::string best_weights::failure() const {
  const std::lock_guard guard(mutex_);
  return failure_;
}

std::optional<kept_best> best_weights_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / best_weights::file_name;
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return std::nullopt;
  try {
    kept_best best;
    checkpoint::read(file).part(best_weights_part)->field("best", best);
    return best;
  } catch (const std::exception& e) {
    throw std::runtime_error(
        fmt::format("{}; move that file away to go on without the best weights so far", e.what()));
  }
}

} // namespace mailgrad
