#pragma once

#include <mailgrad/actors/protocol/gap_notices.hpp>
#include <mailgrad/actors/worker/shard_lines.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>

#include <vector>

namespace mailgrad {

/// Reads the weights in a block that all workers share, and writes each gradient straight into it (hogwild).
/// Shards, if the run has any, only tell when the worker may begin.
///
/// Threads  those of the device actor that owns it.
class block_exchange : public exchange {
public:
  /// `shard_begins`: where each shard begins in the block, in floats. The exchange owns `writer`.
  block_exchange(const worker_context& of, shard_lines& lines, std::shared_ptr<hogwild_writer> writer,
                 std::vector<std::size_t> shard_begins, caf::actor tracker, notice_pace pace = {});

  void receive(const shard_weights& x) override;
  void bind() override;
  void deliver(computed_gradient g) override;
  /// Tells the tracker of the gaps that it has not heard of.
  bool flush() override;
  void keep(archive& a) override { writer_->keep(a); }

private:
  worker_context of_;
  shard_lines& lines_;
  std::shared_ptr<hogwild_writer> writer_;
  std::vector<std::size_t> shard_begins_;
  gap_notices notices_;
};

} // namespace mailgrad
