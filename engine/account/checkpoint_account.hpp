#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

/// What became of the checkpoints of a run.
struct checkpoint_account {
  std::uint64_t written =
      0; ///< files; one that takes the place of the last one, after the same step, is none more
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0; ///< of all files that were written
  double seconds = 0;      ///< that the writer's thread took for all of them, by the machine's clock
  double held_seconds = 0; ///< that workers of hogwild stood still, from the first request until they went on
  std::string last{};      ///< the file of the last one
  std::uint64_t steps = 0; ///< that the workers had trained then
  std::string failure{};   ///< of the last one that failed, in one line
  std::uint64_t skipped = 0; ///< became due while one before waited for its turn, which was taken for both
  std::uint64_t removed_for_room = 0; ///< older ones, which would have stayed if the disk were not full
};

} // namespace mailgrad
