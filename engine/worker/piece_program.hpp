#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/training_fetches.hpp>
#include <mailgrad/engine/worker/piece_rows.hpp>
#include <mailgrad/graph/partition.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// What a segment computed for others of one micro-batch, in the order of segment::exports.
struct value_set {
  std::vector<block> values;
};

/// What a piece adds to the gradient of a step.
struct piece_sum {
  std::shared_ptr<const coverage> covered; ///< by the dense parts of all pieces
  /// Dense parts go there: this piece writes to the variables it differentiates, and nobody else does, but
  /// for what it adds to the parts of others, which goes to an addend of its own.
  std::shared_ptr<gradient> into;
  std::size_t own_addend = 0;         ///< among those of `into`, if this piece has any
  std::vector<char> begun;            ///< by variable: whether a part has been written
  std::vector<piece_rows> rows;       ///< sparse parts
  std::shared_ptr<row_memory> memory; ///< what `rows` points into
  float loss = 0;                     ///< the piece's share of it: 0 unless it computes the loss
};

/// One micro-batch of a step.
struct micro_batch {
  std::shared_ptr<const batch> samples;
  float share = 1;          ///< of the samples of the step
  bool only = true;         ///< the step has no other
  std::size_t place = 0;    ///< among those of the step
  std::uint64_t number = 0; ///< seeds random operations
};

/// What one device computes of a model that spans several, compiled for one size of micro-batch.
///
/// Every piece builds the whole graph and compiles its own segments of it: the same function builds the same
/// graph, so pieces agree on the numbers of segments and the order of their values.
/// Errors  graph_error as the model function has it.
/// Threads one caller at a time.
class piece_program {
public:
  /// A segment of this device.
  struct part {
    std::size_t number;             ///< in the order of all segments
    std::vector<std::size_t> reads; ///< segments whose values it needs
    std::vector<device> readers;    ///< other devices that need its values
  };

  /// A dense gradient, or what one device adds to it.
  struct delivery {
    std::size_t variable;
    bool further; ///< another device delivers the first addend

    auto operator<=>(const delivery&) const = default;
  };

  /// `sums_apart`: gradients that several devices add up are delivered as what each of them adds.
  piece_program(const model_function& build, const model_request& request, const parameter_layout& layout,
                device where, bool sums_apart = false);
  ~piece_program();

  std::span<const part> parts() const noexcept { return parts_; }
  /// What the gradient of the whole model is about.
  const std::shared_ptr<const coverage>& covered() const noexcept { return covered_; }
  /// What this device adds to what others deliver; nothing unless sums are apart.
  const std::shared_ptr<const coverage>& added() const noexcept { return added_; }
  /// Parts that need the values of a segment.
  std::size_t readers_of(std::size_t segment) const;
  /// The dense gradients that are delivered here.
  const std::vector<delivery>& delivered() const noexcept { return delivered_; }
  /// Which device computes a segment.
  device maker_of(std::size_t segment) const { return segments_.at(segment).where; }

  /// Memory for what part `i` computes for others.
  std::shared_ptr<value_set> make_values(std::size_t i) const;

  /// Computes part `i`; `read` has what it reads, in the order of part::reads.
  void run(std::size_t i, const stream& s, const micro_batch& m, const weight_addresses& weights,
           std::span<const value_set* const> read, value_set& made, piece_sum& sum);

private:
  struct compiled_part;

  part described(std::size_t number) const;
  std::unique_ptr<compiled_part> compiled(std::size_t number, const parameter_layout& layout,
                                          const model_request& request) const;

  std::unique_ptr<graph> graph_;
  training_fetches wanted_;
  std::shared_ptr<const coverage> covered_;
  std::shared_ptr<const coverage> added_;
  std::vector<segment> segments_;
  std::vector<part> parts_;
  std::vector<delivery> delivered_; ///< ascending
  std::vector<std::unique_ptr<compiled_part>> compiled_;
};

/// What is to be delivered where: row numbers beside the rows.
std::vector<wanted_value> wanted_values(const training_fetches& fetches);

} // namespace mailgrad
