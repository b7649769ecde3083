#pragma once

#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// Where the parts of a stage find what they read on its device, and where they write.
///
/// Threads one caller at a time.
class stage_place {
public:
  virtual ~stage_place() = default;

  /// A part of a micro-batch, for kernels of the stage.
  virtual const void* part_of(const micro_batch& m, const tensor& part) = 0;
  virtual const float* weights_of(std::size_t variable) const = 0;
  /// Brings the rows of tables that a program reads for a micro-batch, where they do not lie at weights_of()
  /// anyway.
  virtual void bring_rows([[maybe_unused]] const micro_batch& m, [[maybe_unused]] const weight_reads& reads) {
  }
  /// The dense gradient of the model, float32[parameter_layout::dense_size()].
  virtual float* dense_of(const stage_sum& sum) = 0;
  /// Memory for the rows of a table's gradient, of which `sum` keeps what is pushed.
  virtual std::byte* room_for_rows(std::size_t bytes, stage_sum& sum) = 0;
  /// The row numbers that lie in the batch, where the worker finds those of this stage.
  virtual std::span<const std::int32_t> rows_of(const micro_batch& m, const tensor& part, stage_sum& sum) = 0;
};

} // namespace mailgrad
