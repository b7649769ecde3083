#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad {

/// Which part of which micro-batch a piece computes next. A plain class: the actor only moves values.
///
/// A part may run when the values it reads are there, when it has run for all micro-batches before, and when
/// everybody who reads its values still gives credit for them. Of several the one latest in the order of
/// segments goes first: backward before forward, so that what a micro-batch holds is let go early.
///
/// Source  Narayanan et al., PipeDream, SOSP 2019, section 3.2: one forward, one backward; Huang et al.,
///         GPipe, NeurIPS 2019: all micro-batches of a step read one version of the weights.
/// Never   waits for ever, if every credit is at least 1: the earliest segment that the earliest unfinished
///         micro-batch lacks has all it reads, and whoever reads it has used up what came before.
class piece_schedule {
public:
  /// A part as the schedule sees it.
  struct part {
    std::size_t number;               ///< in the order of all segments
    std::vector<std::size_t> reads;   ///< numbers of segments
    std::vector<std::size_t> readers; ///< pieces that read its values, without its own
  };
  /// Micro-batch and place of a part among those of the piece.
  struct turn {
    std::size_t micro_batch;
    std::size_t part;

    friend bool operator==(const turn&, const turn&) = default;
  };

  /// Parts by micro-batch, which may be of several sizes; `credits` is how many micro-batches a reader may be
  /// behind.
  piece_schedule(std::vector<std::vector<part>> parts, std::size_t credits);

  /// The values of a segment are there, be it another piece's or one of this piece.
  void arrive(std::size_t micro_batch, std::size_t segment);
  /// A reader is done with the values of a segment, of one micro-batch.
  void credit(std::size_t segment, std::size_t reader);

  std::optional<turn> next() const;
  /// Takes note that it has run, and has cost credit.
  void ran(const turn& t);

  bool finished() const noexcept { return left_ == 0; }
  /// Whether a part could run but for credit: then the readers are behind, else somebody is waited for.
  bool waits_for_credit() const;

private:
  /// A part of all micro-batches that have it, in their order: they run one after the other.
  struct line {
    std::vector<turn> turns;
    std::size_t ran = 0;
  };

  const part& part_of(const turn& t) const { return parts_[t.micro_batch][t.part]; }
  bool has_values(const turn& t) const;
  bool has_credit(const turn& t) const;
  std::optional<turn> first(bool with_credit) const;

  std::vector<std::vector<part>> parts_; ///< by micro-batch
  std::size_t credits_;
  std::map<std::size_t, line, std::greater<>> lines_;               ///< by number, the latest first
  std::vector<std::vector<std::size_t>> arrived_;                   ///< segments, by micro-batch
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> owed_; ///< by segment and reader
  std::size_t left_ = 0;                                            ///< turns
};

} // namespace mailgrad
