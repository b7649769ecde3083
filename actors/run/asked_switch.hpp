#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

/// Where the parts of a run are, which decides to which policies somebody may switch it.
enum class run_place : std::uint8_t {
  one_process,
  workers_elsewhere,
  shards_elsewhere ///< and workers, too
};

/// Refuses a policy that somebody asks a run in progress to switch to, if the run cannot. `has_block`:
/// workers have a block that they could share under hogwild.
///
/// Errors  std::invalid_argument in one line; those of require_switch().
void require_asked_switch(const run_plan& plan, run_place place, bool has_block, const std::string& policy);

} // namespace mailgrad
