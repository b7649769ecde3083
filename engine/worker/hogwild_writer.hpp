#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/row_join.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

/// How a replica takes part in `hogwild`: it reads the shared block where it lies, and writes each of its
/// updates straight into it.
///
/// Schedules go by all updates of the weights, whoever made them: the shards before, and all replicas. Rules
/// with state (momentum, Adam) keep the state of each replica apart, and bias corrections go by that
/// replica's updates. A replica that writes alone makes the weights that a shard would make from the same
/// gradients, bit for bit.
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730.
/// Threads one caller at a time; any number of writers share one store.
class hogwild_writer {
public:
  hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                 const optimizer_options& options);

  /// Remembers the version that the coming gradient is computed from; returns the block to read.
  const float* begin_step() noexcept;

  /// The name of the update rule.
  std::string_view rule() const noexcept { return optimizer_->name(); }

  /// Of the step at hand.
  std::uint64_t version_read() const noexcept { return version_read_; }

  /// Makes one update from `g`, scaled; returns how many updates of others came between reading and writing.
  std::uint64_t write(const gradient& g, float scale);

private:
  struct table {
    std::size_t variable;
    std::size_t width;
    std::size_t offset; ///< floats from the start of the block
    std::int32_t rows;
    std::vector<float> copy; ///< of the whole table; only the rows of a step are ever current
  };

  update_number next_update() const noexcept;
  void write_dense(const gradient& g, float scale, update_number step);
  void write_rows(table& t, update_number step);

  std::shared_ptr<hogwild_store> store_;
  std::unique_ptr<optimizer> optimizer_;
  std::size_t dense_size_;
  std::vector<table> tables_;
  std::uint64_t version_read_ = 0;
  std::uint64_t updates_ = 0; ///< of this replica
  row_join rows_;             ///< of the table at hand
  std::vector<float> before_; ///< those rows as they were read
};

} // namespace mailgrad
