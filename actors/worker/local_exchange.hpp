#pragma once

#include <mailgrad/actors/worker/shard_lines.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>

namespace mailgrad {

/// Takes local steps, and pushes the difference that several of them have made as if that were a gradient.
///
/// Threads  those of the device actor that owns it.
class local_exchange : public exchange {
public:
  /// The exchange owns `local`.
  local_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<local_steps> local);

  void receive(const shard_weights& x) override;
  void go_on() override;
  void bind() override;
  void deliver(computed_gradient g) override;
  bool flush() override;
  bool holds_step() const override { return local_->holds(); }
  void pause() override { local_->start_anew(); }
  void keep(archive& a) override { a.field("local_steps", *local_); }

private:
  worker_context of_;
  shard_lines& lines_;
  std::shared_ptr<local_steps> local_;
  instant spent_{0};             ///< on the steps since the last push
  std::size_t last_samples_ = 0; ///< of the last step
};

} // namespace mailgrad
