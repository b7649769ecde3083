#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {

/// The ranges of the dense part of the weights for which a gradient has values, ascending and not adjacent.
using coverage = std::vector<shard_range>;

/// The coverage of these variables, by index; those with sparse gradients have none. Null: all is covered.
std::shared_ptr<const coverage> coverage_of(const parameter_layout& layout,
                                            std::span<const std::size_t> variables);

/// These ranges in ascending order, where those that touch or overlap are one.
coverage joined_ranges(coverage ranges);

/// Calls `use` for each part of `ranges` that lies in `within`.
template <class Use>
void for_each_part(std::span<const shard_range> ranges, const shard_range& within, const Use& use) {
  for (const shard_range& r : ranges) {
    const shard_range part{std::max(r.begin, within.begin), std::min(r.end, within.end)};
    if (part.begin < part.end) use(part);
  }
}

struct table_piece {
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t width;
  std::uint32_t shard;
  std::size_t in_shard; ///< the first float, from the start of the shard
  std::size_t in_model; ///< and in the model's flat vector
  std::int32_t row_begin, row_end;

  std::size_t size() const noexcept { return static_cast<std::size_t>(row_end - row_begin) * width; }
};
/// All pieces of a table; none of a variable with a dense gradient.
std::vector<table_piece> pieces_of_table(const parameter_layout& layout, std::size_t variable);

/// The ranges of `covered`, or `all` where it is null.
inline std::span<const shard_range> ranges_of(const std::shared_ptr<const coverage>& covered,
                                              const shard_range& all) {
  return covered ? std::span(*covered) : std::span(&all, 1);
}

/// Whether the floats of `part` are covered. No range of `covered` may begin or end inside `part`.
bool covers(const std::shared_ptr<const coverage>& covered, const shard_range& part);

/// Writes or reads ranges, for checkpoints.
/// Errors  archive_error: a range ends before it begins.
void keep_ranges(archive& a, std::string_view name, coverage& ranges);
void keep_ranges(archive& a, std::string_view name, std::shared_ptr<const coverage>& covered);

/// Rows of the gradient of one table.
/// Shapes  rows int32[n], repeats summed, a negative one ends the list; values float32[n, width].
struct gradient_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t width = 0;
  std::span<const std::int32_t> rows;
  std::span<const float> values;
};

/// The same on a GPU, for its kernels.
struct gpu_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t width = 0;
  std::span<const std::int32_t> rows;
  std::span<const float> values;
};

/// The valid rows of the list, which are all before the first negative one, with their values.
gradient_rows listed_rows(const gradient_rows& part);

/// The contribution of a further device of the same worker to the dense part of a gradient.
struct dense_addend {
  block values;                              ///< float32[parameter_layout::dense_size()], or nothing
  std::shared_ptr<const coverage> covered{}; ///< the valid ranges of `values`; null: all of it
};

/// The gradient of a whole model on one mini-batch, laid out like its weights. Shards read parts in place.
///
/// A worker whose graph lacks a variable has no gradient of it, which differs from a gradient of zero.
/// `covered` tells for which ranges there is a gradient; the values elsewhere are zero.
///
/// The dense part lies on the host, or on the GPU of the shards that read it, and so do the rows of tables.
/// If only some shards are on that GPU, the dense part lies in both places, with what shards read there.
/// Addends lie on the host. What lies on a GPU may still be computed: a queue that reads it waits for `ready`
/// first.
struct gradient {
  memory dense;                              ///< float32[parameter_layout::dense_size()]
  memory on_gpu{};                           ///< the same for shards on a GPU, if `dense` is for the others,
  std::uint32_t gpu = 0;                     ///< and the number of this GPU
  std::shared_ptr<const coverage> covered{}; ///< null: all of `dense`
  std::vector<dense_addend> addends; ///< the dense part is the sum of `dense` and these, in this order
  std::vector<gradient_rows> sparse;
  std::vector<gpu_rows> sparse_on_gpu;           ///< in place of `sparse`, if all shards are on one GPU,
  memory rows_on_gpu{};                          ///< in this memory, or in that of `held`
  std::vector<block> sparse_memory;              ///< `sparse` points into this memory,
  std::shared_ptr<const batch> source;           ///< into the batch itself,
  std::vector<std::shared_ptr<const void>> held; ///< or into memory of other owners
  device_event ready{};                          ///< passes when the values are there
  /// The dense part for kernels on `s`: of both places the one that they reach, if they reach one.
  const memory& dense_for(const stream& s) const noexcept {
    const auto* const there = std::get_if<cuda_stream>(&s);
    return there && on_gpu.bytes() > 0 && there->device == gpu ? on_gpu : dense;
  }
};

/// Whether `m` is on the side of `s`: on the host, or on a GPU. memory::on() refuses another GPU.
inline bool is_beside(const memory& m, const stream& s) noexcept {
  return m.is_on_host() == std::holds_alternative<host_stream>(s);
}

/// The dense part of `g`, including the addends of further devices.
/// Errors  shape_error for an addend that is shorter than the ranges it covers.
std::vector<float> whole_dense(const gradient& g);

/// The square of the global norm of a gradient without addends, as sum_of_squares() adds it up.
double squared_norm(const gradient& g);

/// A gradient with memory for its dense part, a block of `blocks`; null: of this process.
std::shared_ptr<gradient> make_gradient(const parameter_layout& layout, const block_source& blocks = {});

/// Joins the rows of one table from all gradients of an update into one list, because a rule with state must
/// see every repeat of a row at once. A model that gathers a table twice has two lists of it in one gradient.
///
/// A single list with scale 1 is used in place; several lists are copied one after the other.
/// Shapes  rows int32[n], may repeat, none is negative; values float32[n, width], scaled.
/// Errors  std::bad_alloc if a list is longer than any before.
/// Threads one caller at a time; what rows() and values() return is valid until the next begin() or add().
class row_join {
public:
  /// Clears all lists; the following add() take those of `variable`.
  void begin(std::size_t variable) noexcept;
  /// Adds all lists of `g`, which must live as long as rows() and values() are used.
  void add(const gradient& g, float scale) {
    for (const gradient_rows& part : g.sparse)
      if (part.variable == variable_) add(part, scale);
  }

  std::span<const std::int32_t> rows() const noexcept { return rows_; }
  std::span<const float> values() const noexcept { return values_; }

private:
  void add(const gradient_rows& part, float scale);
  void copy(std::span<const std::int32_t> rows, std::span<const float> values, float scale) {
    joined_rows_.insert(joined_rows_.end(), rows.begin(), rows.end());
    for (const float g : values) joined_values_.push_back(scale * g);
  }

  std::size_t variable_ = 0;
  std::span<const std::int32_t> rows_; ///< points to the single list, or to the memory below
  std::span<const float> values_;
  std::vector<std::int32_t> joined_rows_;
  std::vector<float> joined_values_;
};

} // namespace mailgrad
