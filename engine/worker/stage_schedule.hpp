#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad {

/// Decides which part of which micro-batch a stage computes next. A plain class: the actor only moves values.
///
/// A part may run under three conditions. The values it reads have arrived; it has run for all earlier
/// micro-batches; and each stage that reads its values still gives credit for them. Of several such parts the
/// one latest in the order of segments runs first. Backward thus goes before forward, which frees the values
/// of a micro-batch early.
///
/// Source  Narayanan et al., PipeDream, SOSP 2019, section 3.2: one forward, one backward; Huang et al.,
///         GPipe, NeurIPS 2019: all micro-batches of a step read one version of the weights.
/// Never   waits for ever, if `credits` is at least 1. Take the earliest unfinished micro-batch and the first
///         segment that it lacks: all values that this segment reads have arrived, and its readers have
///         returned all credit for earlier micro-batches.
class stage_schedule {
public:
  /// A part as the schedule sees it.
  struct part {
    std::size_t number;               ///< in the order of all segments
    std::vector<std::size_t> reads;   ///< the numbers of the segments whose values it needs
    std::vector<std::size_t> readers; ///< the other stages that read its values
  };
  /// One run of a part.
  struct turn {
    std::size_t micro_batch;
    std::size_t part; ///< index among the parts of this micro-batch

    friend bool operator==(const turn&, const turn&) = default;
  };

  /// `parts` has the parts of each micro-batch, since micro-batches of different sizes are compiled apart.
  /// `credits` is how many micro-batches a reader may be behind.
  stage_schedule(std::vector<std::vector<part>> parts, std::size_t credits);

  /// Notes that the values of a segment have arrived, from another stage or from this one.
  void arrive(std::size_t micro_batch, std::size_t segment);
  /// Notes that a reader has used the values of a segment of one micro-batch.
  void credit(std::size_t segment, std::size_t reader);

  /// The part to run next, or none while all must wait.
  std::optional<turn> next() const;
  /// Notes that a part has run. It costs a credit of each of its readers.
  void ran(const turn& t);

  bool finished() const noexcept { return left_ == 0; }
  /// Whether only missing credit holds the stage up, so that its readers are behind. Otherwise a stage
  /// without a next() turn waits for values.
  bool waits_for_credit() const;

private:
  /// The turns of one part, in the order of micro-batches, in which they run.
  struct line {
    std::vector<turn> turns;
    std::size_t ran = 0; ///< turns that have run
  };

  const part& part_of(const turn& t) const { return parts_[t.micro_batch][t.part]; }
  bool has_values(const turn& t) const;
  bool has_credit(const turn& t) const;
  std::optional<turn> first(bool with_credit) const;

  std::vector<std::vector<part>> parts_; ///< by micro-batch
  std::size_t credits_;
  std::map<std::size_t, line, std::greater<>> lines_; ///< by number of the segment, the latest first
  std::vector<std::vector<std::size_t>> arrived_;     ///< segments whose values are here, by micro-batch
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> owed_; ///< micro-batches, by segment and reader
  std::size_t left_ = 0;                                            ///< turns that have not run
};

} // namespace mailgrad
