#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/row_join.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

/// Applies the gradients of one replica under `hogwild`. The replica reads the shared block in place, and the
/// writer writes each update straight into it.
///
/// Schedules count all updates of the weights: those that shards made before, and those of all replicas. A
/// rule with state (momentum, Adam) keeps one state for each replica, and its bias correction counts the
/// updates of that replica. If only one replica writes, its weights are those that a shard would make from
/// the same gradients, bit for bit.
///
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730.
/// Threads one caller at a time; any number of writers share one store.
class hogwild_writer {
public:
  hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                 const optimizer_options& options);

  /// Notes the version that the next gradient is computed from, and returns the block to read.
  const float* begin_step() noexcept;

  /// The name of the update rule.
  std::string_view rule() const noexcept { return optimizer_->name(); }

  /// The version noted by the last begin_step().
  std::uint64_t version_read() const noexcept { return version_read_; }

  /// Makes one update from `g` times `scale`. Returns how many updates other workers made since begin_step().
  std::uint64_t write(const gradient& g, float scale);

  /// Writes or reads the state of the rule, between two updates. The block is not part of it.
  ///
  /// Errors  archive_error.
  void keep(archive& a);

private:
  struct table {
    std::size_t variable;
    std::size_t width;
    std::size_t offset; ///< floats from the start of the block
    std::int32_t rows;
    std::vector<float> copy; ///< memory for the whole table; only the rows of the present step are valid
  };

  update_number next_update() const noexcept;
  void write_dense(const gradient& g, float scale, update_number step);
  void write_rows(table& t, update_number step);

  std::shared_ptr<hogwild_store> store_;
  std::unique_ptr<optimizer> optimizer_;
  stream where_ = host_stream{};
  std::size_t dense_size_;
  std::vector<table> tables_;
  std::uint64_t version_read_ = 0;
  std::uint64_t updates_ = 0; ///< made by this writer
  row_join rows_;             ///< the rows of the table being updated
  std::vector<float> before_; ///< the values of those rows as they were read
};

} // namespace mailgrad
