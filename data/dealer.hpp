#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// Who gets the next batch.
enum class deal_mode : std::uint8_t {
  on_demand, ///< whoever asks
  by_rank,   ///< rank r of n gets r, r + n, r + 2n, ...: the same in every run
};

struct dealer_options {
  std::size_t samples = 0;
  std::size_t batch_size = 64;
  std::uint64_t epochs = 1;
  std::uint64_t batches = 0; ///< over all ranks; 0: as many as the epochs have
  std::uint64_t seed = 1;
  deal_mode mode = deal_mode::on_demand;
  std::uint32_t ranks = 1;
};

/// One batch, as dealt.
struct deal {
  std::uint64_t number = 0;               ///< from 0, counted over all epochs
  std::uint64_t epoch = 0;                ///< from 0
  std::span<const std::uint32_t> samples; ///< valid until the dealer is asked again
};

/// What a rank was dealt so far.
struct deal_count {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const deal_count&, const deal_count&) = default;
};

/// Shuffles the samples anew in each epoch and deals each of them once an epoch, over all ranks together. The
/// last batch of an epoch may be smaller. The order depends on the seed and the epoch alone.
///
/// When a rank leaves, what it was not dealt yet goes to the others: from then on the lowest batch that is
/// left goes to whoever asks, so the batches of a round between two barriers stay the same.
///
/// Errors  std::invalid_argument for no samples, no ranks or a batch size of 0; std::out_of_range for a rank
///         that is not one of `ranks`.
/// Threads one at a time.
class dealer {
public:
  explicit dealer(const dealer_options& options);

  /// The next batch of `rank`; nothing when all are dealt or the rank has left. Allocates nothing.
  std::optional<deal> next(std::uint32_t rank);

  /// The batch of that number, whoever was dealt it; nothing if there is none. Counts for nobody.
  std::optional<deal> batch(std::uint64_t number);

  /// Deals nothing more to `rank`.
  void leave(std::uint32_t rank);

  /// From now on deals in this mode what is left.
  void deal_by(deal_mode mode) noexcept;

  deal_count dealt(std::uint32_t rank) const;
  std::uint64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  /// Over all epochs and ranks.
  std::uint64_t batches() const noexcept { return batches_; }

private:
  /// The samples in the order of one epoch.
  struct shuffled {
    std::optional<std::uint64_t> epoch;
    std::vector<std::uint32_t> samples;
  };

  void require_rank(std::uint32_t rank) const;
  std::uint64_t& next_number(std::uint32_t rank);
  std::span<const std::uint32_t> order_of(std::uint64_t epoch);

  dealer_options options_;
  std::uint64_t batches_per_epoch_ = 0;
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t>
      next_; ///< number of the next batch of each rank; on demand, the lowest goes first
  std::vector<deal_count> dealt_;
  std::vector<bool> left_;
  bool any_left_ = false;
  std::array<shuffled, 2> orders_; ///< two, since one rank may be an epoch ahead of another
};

} // namespace mailgrad
