#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/kernels/copy.hpp>

#include <algorithm>

namespace mailgrad {

/// Where the numbers of some rows lie in a batch: elements first, first + stride and so on of a part.
struct rows_in_batch {
  batch_part part;
  std::size_t first;
  std::size_t stride;
  std::size_t count;
};

/// A piece of a table of which a program reads the rows that a batch names.
struct table_part : table_piece {
  std::vector<rows_in_batch> rows;
};

/// What programs read of the weights, so that no more has to be brought to their device for a step.
///
/// A table is read by its rows if every operation of the graph that has it for an operand is a row_reader,
/// and finds the numbers in an input, so in the batch. Of any other variable all weights may be read. An
/// operation whose numbers are an input that the program lacks is none of the program's.
/// Errors  graph_error: a row_reader names numbers that its operands do not have.
class weight_reads {
public:
  weight_reads(const graph& g, const program& code, const bound_sources& sources,
               const parameter_layout& layout);
  /// The ranges that may be read whole, ascending: the dense part, if any of it is read, and tables.
  const std::vector<shard_range>& whole() const noexcept { return whole_; }
  const std::vector<table_part>& tables(std::uint32_t shard) const { return tables_[shard]; }
  bool by_rows(std::size_t variable) const noexcept {
    return std::ranges::find(by_rows_, variable) != by_rows_.end();
  }

  /// Where the numbers of a part of a batch lie for who copies.
  using numbers_of = std::function<const std::int32_t*(const batch_part&)>;
  /// Lists the copies of a shard's rows that a batch names. A part with fewer rows than its lists goes whole.
  /// Errors  graph_error: there are no numbers.
  void list_copies(std::uint32_t shard, const float* from, float* to, const numbers_of& numbers,
                   std::vector<row_copy>& all) const;

private:
  std::vector<shard_range> whole_;
  std::vector<std::vector<table_part>> tables_; ///< by shard
  std::vector<std::size_t> by_rows_;            ///< variables
};

} // namespace mailgrad
