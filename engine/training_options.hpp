#pragma once

#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

struct own_parameter_actor;

/// What to do with a model and its data.
struct training_options {
  std::vector<device> devices{
      {device_kind::cpu, 0}}; ///< one worker each; a device named twice runs two in turns
  /// 0: as many as devices. Fewer: the devices are shared out, the first ones to the first worker, and each
  /// worker's model spans its own, as scopes, replicate() or pipelined() place it.
  std::uint32_t workers = 0;
  std::size_t micro_batches =
      1; ///< of the batch of a worker that spans devices, so that all of them have work
  /// Or several, each but the first with its step: "async, sync@1000"; or "auto".
  std::string policy = "async";
  std::string cure = "none";     ///< of staleness, as make_cure() reads it
  optimizer_options optimizer;   ///< plain SGD unless told otherwise
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  /// Of the shards, with local steps. SGD of learning rate 1 averages models.
  optimizer_options outer{.learning_rate = 1};
  std::size_t batch = 64;       ///< samples in a mini-batch of one worker
  std::uint64_t epochs = 1;     ///< passes over the training set, by all workers together
  std::uint64_t steps = 0;      ///< mini-batches, by all workers together; 0: as the epochs have it
  std::uint32_t shards = 1;     ///< parameter actors; hogwild has none
  std::uint64_t seed = 1;       ///< of initial weights, order of samples and dropout
  std::uint64_t sample_gap = 0; ///< steps of a worker for each gradient compared with a fresh one; 0: none is
  text_sample_options text{};   ///< where the data are a text: what the trained model writes at the end
  std::size_t trace_events = 0; ///< room for the timeline of each actor; 0: none is recorded
  std::string record{}; ///< file for the order in which shards take gradients; empty: none, as in a replay
  std::vector<std::string> words{};          ///< of the command line, for whoever reads the recording
  std::shared_ptr<const recording> replay{}; ///< the run to repeat; all but the devices must be as in it
  /// One of your own for every shard, as own_parameter_actor.hpp makes it; none: ours.
  std::shared_ptr<const own_parameter_actor> parameter_actor{};
};

} // namespace mailgrad
