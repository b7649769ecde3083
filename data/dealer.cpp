#include <mailgrad/data/dealer.hpp>

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max() / 2;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(fmt::format("dealer: {}", what));
}

/// Mixes seed and epoch into the seed of a generator, so that neighbouring ones do not give similar
/// sequences.
/// Source  the finaliser of Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA
///         2014.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch) {
  std::uint64_t z = seed + (epoch + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Draws a number in [0, n), each equally likely. The distributions of the standard library would draw other
/// numbers with another library.
/// Source  Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019, Algorithm 5, for 32
///         bits.
std::uint32_t below(std::uint32_t n, std::mt19937_64& random) {
  while (true) {
    const std::uint64_t product = (random() >> 32) * n;
    const auto rest = static_cast<std::uint32_t>(product);
    // The threshold (0 - n) % n is below n, so most draws need no division.
    const bool even = rest >= n || rest >= (0 - n) % n;
    if (even) return static_cast<std::uint32_t>(product >> 32);
  }
}

/// Source  Fisher & Yates, as in Knuth, The Art of Computer Programming, vol. 2, Algorithm P.
void shuffle(std::span<std::uint32_t> samples, std::mt19937_64& random) {
  std::iota(samples.begin(), samples.end(), 0U);
  for (auto rest = static_cast<std::uint32_t>(samples.size()); rest > 1; --rest)
    std::swap(samples[rest - 1], samples[below(rest, random)]);
}

} // namespace

dealer::dealer(const dealer_options& options) : options_(options) {
  require(options.samples > 0, "there are no samples");
  require(options.samples <= std::numeric_limits<std::uint32_t>::max(), "samples are numbered in 32 bits");
  require(options.batch_size > 0, "a batch needs a sample");
  require(options.ranks > 0, "there are no ranks");
  const std::uint32_t slots = options.slots > 0 ? options.slots : options.ranks;
  require(slots >= options.ranks, "there are fewer slots than ranks");
  batches_per_epoch_ = (options.samples - 1) / options.batch_size + 1;

  batches_ = options.batches > 0                             ? options.batches
             : options.epochs > endless / batches_per_epoch_ ? endless
                                                             : options.epochs * batches_per_epoch_;
  next_.resize(options.ranks);
  std::iota(next_.begin(), next_.end(), std::uint64_t{0});
  dealt_.resize(slots);
  left_.resize(options.ranks);
  left_.resize(slots, true);
  for (shuffled& order : orders_) order.samples.resize(options.samples);
}

std::optional<std::uint64_t> dealer::take_again(std::uint32_t rank) {
  // Those behind the end are for a run that is made longer.
  const auto found = std::ranges::find_if(
      again_, [&](std::uint64_t n) { return n < batches_ && (lowest_first() || n % next_.size() == rank); });
  if (found == again_.end()) return std::nullopt;
  const std::uint64_t number = *found;
  again_.erase(found);
  return number;
}

std::span<const std::uint32_t> dealer::order_of(std::uint64_t epoch) {
  for (const shuffled& order : orders_)
    if (order.epoch == epoch) return order.samples;
  shuffled& oldest = *std::ranges::min_element(orders_, {}, &shuffled::epoch);
  std::mt19937_64 random{mixed(options_.seed, epoch)};
  shuffle(oldest.samples, random);
  oldest.epoch = epoch;
  return oldest.samples;
}

std::optional<deal> dealer::batch(std::uint64_t number) {
  if (number >= batches_) return std::nullopt;
  const std::uint64_t epoch = number / batches_per_epoch_;
  const std::size_t first = number % batches_per_epoch_ * options_.batch_size;
  const std::size_t count = std::min(options_.batch_size, options_.samples - first);
  return deal{number, epoch, order_of(epoch).subspan(first, count)};
}

void dealer::require_rank(std::uint32_t rank) const {
  if (rank >= dealt_.size())
    throw std::out_of_range(fmt::format("dealer: rank {} of {}", rank, dealt_.size()));
}

std::optional<deal> dealer::next(std::uint32_t rank) {
  require_rank(rank);
  if (left_[rank]) return std::nullopt;
  const std::optional<std::uint64_t> again = take_again(rank);
  std::uint64_t& number = next_number(rank);
  const std::optional<deal> dealt = batch(again.value_or(number));
  if (!dealt) return dealt;
  if (!again) {
    number += next_.size();
    consecutive_ = consecutive_ && lowest_first();
    ++lowest_;
  }
  ++dealt_[rank].batches;
  dealt_[rank].samples += dealt->samples.size();
  return dealt;
}

dealer_position dealer::position(std::vector<std::uint64_t> again) const {
  dealer_position p{std::ranges::max(next_), std::move(again)};
  p.again.insert(p.again.end(), again_.begin(), again_.end());
  for (std::uint64_t number : next_)
    for (; number < p.undealt; number += next_.size()) p.again.push_back(number);
  std::ranges::sort(p.again);
  return p;
}

std::uint64_t dealer::undealt() const {
  const auto is_dealt = [this](std::uint64_t number) { return number < batches_; };
  auto rest = static_cast<std::uint64_t>(std::ranges::count_if(again_, is_dealt));
  for (const std::uint64_t number : next_)
    if (number < batches_) rest += (batches_ - 1 - number) / next_.size() + 1;
  return rest;
}

} // namespace mailgrad
