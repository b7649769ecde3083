#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// What a checkpoint says in several places of how much is trained.
struct told_steps {
  bool in_block = false;      ///< the policy then was hogwild
  std::uint64_t counted = 0;  ///< by the workers
  std::uint64_t written = 0;  ///< by the workers, into the block
  std::uint64_t of_block = 0; ///< updates that it counts
  std::uint64_t taken = 0;    ///< batches that are not dealt again
  std::vector<float> weights;
};

/// `shards`: those that have the weights; 0: the block has them.
inline told_steps told_by(const checkpoint& from, std::uint32_t workers, std::uint32_t shards) {
  told_steps told;
  checkpoint_card card;
  kept_schedule schedule;
  const auto run = from.part("run");
  run->field("card", card);
  run->field("schedule", schedule);
  told.in_block = schedule.policy == "hogwild";
  for (std::uint32_t r = 0; r < workers; ++r) {
    worker_report report;
    from.part("worker " + std::to_string(r))->field("report", report);
    told.counted += report.steps;
    told.written += report.applied;
  }
  from.part(block_part)->field("updates", told.of_block);
  feeder_position feeder;
  from.part("feeder")->field("feeder", feeder);
  told.taken = feeder.batches.undealt - feeder.batches.again.size();
  const auto append = [&](const archived_array& x) {
    told.weights.insert(told.weights.end(), x.values.begin(), x.values.end());
  };
  if (shards == 0) append(from.part(block_part)->array("weights"));
  for (std::uint32_t s = 0; s < shards; ++s) {
    const auto shard = from.part("shard " + std::to_string(s));
    shard->group("shard", [&] { append(shard->array("weights")); });
  }
  return told;
}

} // namespace mailgrad::testing
