#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad {

/// "shards 0, 2"
std::string lost_of(const training_report& r);

/// What stands behind figures of which lost shards had a part.
std::string without_lost(const training_report& r);

/// What stands in the place of figures that nobody has told: `none` if there are none.
std::string untold(const training_report& r, const char* none);

/// How many versions of the weights there are.
std::string updates_in_words(const training_report& r);

/// The lines of the ledger, and where it is that of a lost shard, of that of one that is left.
std::string ledger_lines(const training_report& r);

/// With more workers, the summary has no line for each.
inline constexpr std::uint32_t most_workers_named = 64;

/// The lines of the staleness of all gradients, and of those of each worker.
std::string staleness_lines(const training_report& r);

/// "worker 0: cpu:0 computed 87 % of the time, cpu:1 85 %"
std::string stages_in_words(const training_report& r);

/// "936 batches from the own disk of workers 0, 2, 94.1 MiB not sent; 2 batches sent to workers 0, 1"
std::string origins_in_words(const std::vector<batch_origins>& batches);

/// The lines of the tests at the end of a run, and of the weights that they tested, as far as they are known.
std::string last_test_lines(const training_report& r);

/// The lines of the tests during a run, and of tests and texts that a card of it has left to the host.
std::string evaluation_lines(const training_report& r);

/// "12 written in 0.31 s, the last after step 6000: runs/checkpoint-0000006000.safetensors"
std::string checkpoints_in_words(const checkpoint_account& c);

/// How to train the rest of a run that ended before all its steps: "goes on by    mailgrad train --resume
/// runs". `command` trains such runs. A run that was trained enough would end at once, so it takes another
/// option as well. A run that has kept nothing itself goes on where it began.
std::string way_on_in_words(const training_report& r, const std::string& command);

/// The summary that a run prints at its end. `command` is the one by which it goes on from a checkpoint.
std::string in_words(const training_report& r, const std::string& command = "mailgrad train");

} // namespace mailgrad
