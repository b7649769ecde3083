#pragma once

#include <mailgrad/actors/protocol/piece_messages.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/worker/step_model.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// A model that spans several devices, as the worker who owns it sees it: each device has an actor with its
/// piece, and a step is one message to each and one answer from each.
///
/// The batch is cut into micro-batches, as equal as can be, so that no piece has to wait until another has
/// done with all of it; the gradient is the mean over all samples, as if there were none. Random operations
/// draw anew for each.
/// Threads the worker's.
class spanning_replica : public step_model {
public:
  struct options {
    rank worker;
    std::vector<device> devices;    ///< one for each piece
    std::vector<caf::actor> pieces; ///< in the order of `devices`
    std::size_t micro_batches = 1;  ///< of a batch; fewer if it has fewer samples
    std::shared_ptr<const parameter_layout> layout;
    std::vector<std::shared_ptr<trace_track>> traces{}; ///< one for each piece, or none
    /// Gradients that several devices add up have an addend for each piece, instead of being added before the
    /// step ends: for shards, which take the sum in the pass that applies it. The same goes for its pieces.
    bool sums_apart = false;
  };

  explicit spanning_replica(options o);

  /// Before anything else: the worker that sends and hears for it. It hears `piece_lost` if a piece dies.
  void begin(caf::event_based_actor* self);

  std::shared_ptr<gradient> make_gradient() const override;
  void use_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void> owner) override;
  /// Whether the weights are a block that others write to meanwhile.
  void use_racing_weights(bool racing) { racing_ = racing; }
  void compute(const stream& s, std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out,
               const completion& done) override;
  float loss() const noexcept override { return loss_; }

  void on_computed(const step_computed& x);
  void on_failed(const piece_failed& x) { options_.traces[x.piece] = x.trace; }
  /// "failed: ..." or "is gone", in words that name the device.
  std::string in_words(const piece_failed& x) const;
  std::string in_words(const piece_lost& x) const;
  /// "its pieces on cpu:1"; nothing while no step is computed.
  std::optional<std::string> waits_for() const;

  /// The pieces compute nothing more, and let go of what they hold. What they did, and their timelines.
  std::vector<piece_report> end();

private:
  void split(const std::shared_ptr<const batch>& inputs, step_work& work);
  void complete();

  caf::event_based_actor* self_ = nullptr;
  options options_;
  std::vector<weight_view> weights_; ///< by shard
  object_pool<batch> parts_;
  object_pool<row_memory> rows_;
  bool racing_ = false;
  std::uint64_t step_ = 0;
  std::shared_ptr<gradient> into_;
  std::vector<std::optional<piece_sum>> sums_; ///< by piece, of the step at hand
  std::size_t missing_ = 0;
  std::vector<std::int64_t> busy_; ///< by piece, ns
  completion done_;
  float loss_ = 0;
};

} // namespace mailgrad
