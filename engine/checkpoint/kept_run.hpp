#pragma once

#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

namespace mailgrad {

// What a checkpoint keeps of a run as a whole. Workers and shards write parts of their own.

/// Which run a checkpoint is of, and how far that has come.
struct checkpoint_card {
  std::uint32_t workers = 0;
  std::uint32_t shards = 0;
  /// facts_and_names() of the run; only messages use the names.
  std::vector<std::pair<std::string, std::string>> facts{};
  std::vector<std::string> words{}; ///< its command line
  /// The options of a server that the run has left, for its way back. They are a part of their own.
  std::vector<std::string> args_of_server{};
  /// The folder in which the command line was typed, for the relative paths in it. A part of its own as well.
  std::string folder_of_args{};
  std::string replayed{};  ///< SHA-256 of the weights with which the repeated run ended; empty: no replay
  std::uint64_t steps = 0; ///< mini-batches that all workers had trained
  /// ns that the workers of its books have trained, without pauses between two processes.
  std::int64_t elapsed = 0;
  std::vector<bool> present{}; ///< by rank: this worker was not lost
  /// By rank: its part tells all that the worker did. Not if it was lost under hogwild, where nobody knows.
  std::vector<bool> counted{};
  /// By rank: an incarnation of it was lost before, so one shard may have taken more of it than another.
  std::vector<bool> lost{};

  void keep(archive& a);
};

/// The policy of a run, and the switches that are over, planned and asked for.
struct kept_schedule {
  std::string policy;
  std::vector<std::pair<std::uint64_t, std::string>> planned{}; ///< with the step at which each begins
  std::vector<std::pair<std::string, std::string>> asked{};     ///< each with its reason
  std::vector<policy_switch> done{};

  void keep(archive& a);
};

/// The part of a checkpoint with the options of a server that the run has left, if it has left one.
inline constexpr const char* args_of_server_part = "words of server";

/// The part of a checkpoint with the folder in which its command line was typed, if that is known.
inline constexpr const char* folder_of_args_part = "folder of words";

/// The part of a checkpoint with the judged_tests of a run that has patience or keeps its best weights.
inline constexpr const char* judged_tests_part = "tests";

struct feeder_position {
  dealer_position batches{};
  /// The batches that each worker has trained, by rank. A worker that has left trained all it was dealt.
  std::vector<std::uint64_t> trained{};
  std::uint64_t switches = 0; ///< of a replay: the recorded ones that are complete

  void keep(archive& a);
};

/// The part of a checkpoint with the block that workers share under hogwild.
inline constexpr const char* block_part = "block";

enum class block_weights : std::uint8_t {
  all,      ///< the run has no shards
  in_shards ///< none: the parts of the shards have them
};

/// What a checkpoint keeps of the block. No replica may write meanwhile. The weights are copied.
std::shared_ptr<const saved_fields> keep_block(const hogwild_store& block, block_weights which);

/// The weights of a run under hogwild alone: those of its block, or of all its shards if they lay on a GPU.
/// Errors  archive_error for another number of weights than `size`.
std::vector<float> kept_hogwild_weights(const checkpoint& from, std::size_t size);

/// Brings a block to where a checkpoint was taken. `known`: the updates of the workers that go on.
/// Errors  archive_error: there is no such part, there are other weights, or fewer updates than that.
void restore_block(const checkpoint& from, hogwild_store& block, block_weights which, std::uint64_t known);

} // namespace mailgrad
