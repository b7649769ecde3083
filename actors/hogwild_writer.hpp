#pragma once

#include <mailgrad/actors/gradient.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

/// How a replica takes part in `hogwild`: it reads the shared block where it lies, and writes each of its
/// updates straight into it. Rules with state (momentum, Adam) keep the state of each replica apart.
///
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
  void write_dense(const gradient& g, float scale);
  void write_rows(const gradient_rows& part, float scale);

  struct table {
    std::size_t variable;
    std::size_t offset; ///< floats from the start of the block
    std::int32_t rows;
    std::vector<float> copy; ///< of the whole table; only the rows of a step are ever current
  };

  std::shared_ptr<hogwild_store> store_;
  std::unique_ptr<optimizer> optimizer_;
  std::size_t dense_size_;
  std::vector<table> tables_;
  std::uint64_t version_read_ = 0;
  std::uint64_t updates_ = 0; ///< of this replica
  std::vector<float> before_; ///< the rows of a step as they were read
};

} // namespace mailgrad
