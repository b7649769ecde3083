#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

/// When a checkpoint was collected, and what became of it.
struct checkpoint_times {
  enum class fate : std::uint8_t {
    given_up, ///< a part could not come any more, or the run ended first
    written,
    failed, ///< the file could not be written
  };
  std::uint64_t number = 0; ///< from 1; a run that is resumed counts anew
  instant begun{0};         ///< when the parts were asked for
  instant collected{0};     ///< when the last part came, or the checkpoint was given up
  instant ended{0};         ///< when the file was there or had failed; `collected` if given up
  fate what = fate::given_up;
  std::uint64_t steps = 0; ///< that the workers had trained; 0 if given up
  std::string file{};
  std::uint64_t bytes = 0; ///< of the file, if it was written
  std::string failure{};   ///< in one line, if it failed
};

} // namespace mailgrad
