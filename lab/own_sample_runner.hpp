#pragma once

#include <mailgrad/engine/worker/own_batches.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::lab {

/// A runner whose worker trains on samples of its own: worker r of M has the samples r, r + M, and so on.
/// Another runner computes the steps. A batch keeps its number and its size, and its samples are taken from
/// those of the worker, in turns.
///
/// Threads  as those of the other runner.
class own_sample_runner final : public step_runner {
public:
  /// Errors  std::invalid_argument if there are fewer samples than workers.
  own_sample_runner(std::shared_ptr<step_runner> to, std::shared_ptr<const dataset> samples, rank worker,
                    std::uint32_t workers, std::size_t batch, std::size_t nonzeros);

  std::shared_ptr<gradient> make_gradient() const override { return to_->make_gradient(); }
  void on_end(std::function<void()> notice) override { to_->on_end(std::move(notice)); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    to_->use_host_weights(shard, values, std::move(owner));
  }
  double squared_norm(const gradient& g) const override { return to_->squared_norm(g); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  bool computes_at_end() const noexcept override { return to_->computes_at_end(); }
  void skip_step() override { to_->skip_step(); }
  float end_step() override { return to_->end_step(); }
  std::string waits_for() const override { return to_->waits_for(); }

private:
  std::shared_ptr<step_runner> to_;
  std::vector<std::uint32_t> own_; ///< numbers of samples
  own_batches batches_;
  std::vector<std::uint32_t> next_; ///< of the batch that is cut
};

} // namespace mailgrad::lab
