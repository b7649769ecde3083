#pragma once

#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/update.hpp>

#include <deque>

namespace mailgrad {

/// Remembers which rows of tables the latest updates wrote, so that older blocks catch up by these alone.
///
/// A block more than `depth` updates behind copies whole tables. In a steady state nothing is allocated.
class row_log {
public:
  static constexpr std::size_t depth = 64;
  /// Begins the entry of the update that makes `version`. If that is not the version after the last one, all
  /// earlier updates are forgotten.
  void begin(std::uint64_t version) {
    known_ = version == last_ + 1 ? std::min<std::uint64_t>(known_ + 1, depth) : 1;
    last_ = version;
    newest().clear();
  }
  /// Notes that this update writes `width` floats from `first` on, counted from the start of the shard.
  void note(std::size_t first, std::size_t width) { newest().push_back({first, width}); }

  /// Copies the rows that were written since `version` from `from`, which holds the latest version of the
  /// tables, to `to`, which holds `version`. False: the log does not reach back so far.
  bool catch_up(std::uint64_t version, std::span<const float> from, std::span<float> to) const;

private:
  struct written {
    std::size_t first;
    std::size_t width;
  };

  std::vector<written>& newest() { return updates_[last_ % depth]; }

  std::uint64_t last_ = 0;  ///< the version that the newest update makes
  std::uint64_t known_ = 0; ///< the updates in the log, with the newest
  std::vector<std::vector<written>> updates_{depth};
};

/// The row_log of a shard whose tables lie on a GPU, with the numbers of their rows, which it copies there.
///
/// The lists that it keeps of a table take at most as many bytes as the table. Of an update with longer ones
/// it remembers that the whole table may have changed. In a steady state it allocates nothing.
class gpu_row_log {
public:
  static constexpr std::size_t depth = row_log::depth;

  explicit gpu_row_log(std::shared_ptr<device_queue> at) : at_(std::move(at)) {
    for (std::size_t i = 0; i < depth; ++i) updates_.push_back({{}, growing_buffer(at_)});
  }
  /// Whether it lists so many rows of a table of so many floats; else the whole table may have changed.
  static bool lists_rows(std::size_t named, std::size_t floats) noexcept;
  /// Takes memory for the update that makes `version`, whose lists have so many rows at most.
  void take_buffer(std::uint64_t version, std::size_t rows) {
    updates_[version % depth].numbers.of(rows * sizeof(std::int32_t));
  }
  /// As row_log::begin().
  void begin(std::uint64_t version) {
    known_ = version == last_ + 1 ? std::min<std::uint64_t>(known_ + 1, depth) : 1;
    last_ = version;
    newest().lists.clear();
  }
  /// Notes that this update writes the rows of these lists to table number `t`, which has so many floats.
  void note(std::size_t t, std::size_t floats, std::span<const row_gradient> lists);
  void end(); ///< queues the copies of the lists that were noted
  /// Lists the copies that bring tables of `version` to the latest one. `whole` has the copy of each table as
  /// a whole, by its number. Returns false if the log does not reach back that far.
  bool catch_up(std::uint64_t version, std::span<const row_copy> whole, std::vector<row_copy>& copies) const;

private:
  /// Some rows of a table that an update wrote, or all, as row_copy has it.
  struct written {
    std::size_t table;
    std::size_t count;
    const std::int32_t* numbers;
  };
  struct entry {
    std::vector<written> lists;
    growing_buffer numbers; ///< of all lists, one behind the other
  };

  entry& newest() { return updates_[last_ % depth]; }
  bool is_whole_cheaper(std::uint64_t version, std::size_t t, std::size_t height) const;

  std::shared_ptr<device_queue> at_;
  std::uint64_t last_ = 0;  ///< the version that the newest update makes
  std::uint64_t known_ = 0; ///< the updates in the log, with the newest
  std::deque<entry> updates_;
  std::vector<row_copy> copies_; ///< of lists
};

} // namespace mailgrad
