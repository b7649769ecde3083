#pragma once

#include <mailgrad/files/archive.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

/// Which rank gets the next batch.
enum class deal_mode : std::uint8_t {
  on_demand, ///< the rank that asks
  by_rank,   ///< rank r of n gets batches r, r + n, r + 2n, ..., the same in every run
};

struct dealer_options {
  std::size_t samples = 0;
  std::size_t batch_size = 64;
  std::uint64_t epochs = 1;
  std::uint64_t batches = 0; ///< over all ranks; 0: as many as the epochs have
  std::uint64_t seed = 1;
  deal_mode mode = deal_mode::on_demand;
  std::uint32_t ranks = 1; ///< with which the run begins
  std::uint32_t slots = 0; ///< ranks that may take part: those from `ranks` on join later; 0: as many
};

struct deal {
  std::uint64_t number = 0;               ///< from 0, counted over all epochs
  std::uint64_t epoch = 0;                ///< from 0
  std::span<const std::uint32_t> samples; ///< valid until the dealer is asked again
};

/// The batches and samples that one rank was dealt so far.
struct deal_count {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const deal_count&, const deal_count&) = default;
};

/// How far a dealer has come, for any number of ranks.
struct dealer_position {
  std::uint64_t undealt = 0;          ///< this batch and all later ones are to be dealt
  std::vector<std::uint64_t> again{}; ///< earlier batches that are to be dealt too, ascending

  void keep(archive& a) {
    a.version(1);
    a.field("undealt", undealt);
    a.field("again", again);
  }
  friend bool operator==(const dealer_position&, const dealer_position&) = default;
};

/// Shuffles the samples anew in each epoch and deals each of them once an epoch, over all ranks together. The
/// last batch of an epoch may be smaller. The order depends only on the seed and the epoch.
///
/// When a rank leaves, the batches it was not dealt yet go to the other ranks. From then on, and when a rank
/// joins, the rank that asks gets the lowest batch that is left, so a round between two barriers still has
/// the same batches.
///
/// Errors  std::invalid_argument for no samples, no ranks, fewer slots than ranks or a batch size of 0;
///         std::out_of_range for a rank that has no slot.
/// Threads one caller at a time.
class dealer {
public:
  explicit dealer(const dealer_options& options);
  /// Deals the next batch to `rank`; nothing when all are dealt or the rank has left. Allocates nothing.
  std::optional<deal> next(std::uint32_t rank);
  /// Returns the batch of that number, whichever rank it is for; nothing if there is none. No rank counts it.
  std::optional<deal> batch(std::uint64_t number);
  /// Deals nothing more to `rank`, until it joins again.
  void leave(std::uint32_t rank) {
    require_rank(rank);
    left_[rank] = true;
    ranks_changed_ = true;
  }
  /// Deals to `rank` from now on: it has left, or its slot was empty.
  void join(std::uint32_t rank) {
    require_rank(rank);
    if (!left_[rank]) return;
    left_[rank] = false;
    ranks_changed_ = true;
  }
  /// Takes batches back that were dealt and not trained, in any order. Each is dealt once more, before all
  /// others.
  void take_back(std::span<const std::uint64_t> numbers) {
    again_.insert(again_.end(), numbers.begin(), numbers.end());
    std::ranges::sort(again_);
  }
  std::uint64_t undealt() const;

  void deal_by(deal_mode mode) noexcept { options_.mode = mode; }
  /// The position of a dealer that goes on where this one is, and that also deals the batches `again`, which
  /// this one has dealt.
  dealer_position position(std::vector<std::uint64_t> again) const;
  /// Goes on from a position. While batches are dealt by rank, rank r of n gets those of the numbers r, r +
  /// n, and so on again.
  void go_on_from(const dealer_position& from) {
    again_ = from.again;
    for (std::size_t i = 0; i < next_.size(); ++i)
      next_[(from.undealt + i) % next_.size()] = from.undealt + i;
    lowest_ = from.undealt;
    consecutive_ = true;
  }
  deal_count dealt(std::uint32_t rank) const {
    require_rank(rank);
    return dealt_[rank];
  }
  std::uint64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  /// The number of batches over all epochs and ranks.
  std::uint64_t batches() const noexcept { return batches_; }

private:
  struct shuffled {
    std::optional<std::uint64_t> epoch;
    std::vector<std::uint32_t> samples;
  };

  void require_rank(std::uint32_t rank) const;
  bool lowest_first() const noexcept { return ranks_changed_ || options_.mode == deal_mode::on_demand; }
  std::optional<std::uint64_t> take_again(std::uint32_t rank);
  std::uint64_t& next_number(std::uint32_t rank) {
    if (!lowest_first()) return next_[rank];
    return consecutive_ ? next_[lowest_ % next_.size()] : *std::ranges::min_element(next_);
  }
  std::span<const std::uint32_t> order_of(std::uint64_t epoch);

  dealer_options options_;
  std::uint64_t batches_per_epoch_ = 0;
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t> next_; ///< by rank its next batch; on demand, the lowest is dealt first
  /// While all of `next_` are consecutive numbers, the lowest of them, since to search for it among thousands
  /// of ranks would take longer than a step. Batches that are dealt by rank end that.
  std::uint64_t lowest_ = 0;
  bool consecutive_ = true;
  std::vector<std::uint64_t> again_; ///< batches to deal before these, ascending
  std::vector<deal_count> dealt_;
  std::vector<bool> left_;         ///< by rank; also of a slot that is empty
  bool ranks_changed_ = false;     ///< one has left or joined
  std::array<shuffled, 2> orders_; ///< two, because one rank may be an epoch ahead of another
};

} // namespace mailgrad
