#include <mailgrad/engine/plan/recorded_before.hpp>

#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording_cut.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/files/replaced_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const checkpoint& from, const std::string& why) {
  throw recording_error(fmt::format("checkpoint '{}': {}", from.path().string(), why));
}

/// Where a recording may lie that was to become `path`.
std::vector<std::string> files_of(const std::string& path) {
  const std::string real = replaced_file::without_links(path);
  return {replaced_file::partial(real), real + std::string(recording_file::before_suffix), real,
          real + std::string(recording_file::killed_suffix)};
}

} // namespace

std::shared_ptr<const recording> recorded_before(const checkpoint& from, const std::string& path) {
  if (!from.has(recording_part))
    refuse(from, "its run was not recorded, so a recording from here on would lack what came before");
  const auto at = from.object<recording_cut>(recording_part);
  checkpoint_card card;
  kept_schedule schedule;
  const auto run = from.part("run");
  run->field("card", card);
  run->field("schedule", schedule);
  feeder_position feeder;
  from.part("feeder")->field("feeder", feeder);
  if (std::ranges::find(card.present, false) != card.present.end())
    refuse(from, "a worker was lost before it, and would join twice in the recording");
  std::vector<std::string> files = files_of(path);
  if (!at.file.empty() && std::filesystem::absolute(path) != at.file)
    std::ranges::copy(files_of(at.file), std::back_inserter(files));
  std::string first_failure;
  for (const std::string& file : files) {
    if (std::error_code unknown; !std::filesystem::is_regular_file(file, unknown)) continue;
    try {
      return std::make_shared<const recording>(
          part_before(read_recording(file), at, feeder.trained, schedule.done.size()));
    } catch (const std::exception& e) {
      if (first_failure.empty()) first_failure = e.what();
    }
  }
  if (first_failure.empty()) first_failure = fmt::format("there is no recording '{}'", at.file);
  refuse(from, first_failure);
}

} // namespace mailgrad
