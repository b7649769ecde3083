#include <mailgrad/actors/remote/transit.hpp>

#include <mailgrad/net/listen_address.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace mailgrad::remote {

namespace {

constexpr std::uint64_t gradients_beside = 16 << 20;
constexpr std::uint64_t all_beside = 24 << 20;

/// "worker 3", or "workers 0, 3 and 5 more".
std::string in_words(const std::set<rank>& workers) {
  constexpr std::size_t most_named = 8;
  std::string words = workers.size() == 1 ? "worker " : "workers ";
  std::size_t named = 0;
  for (const rank r : workers) {
    if (named == most_named) return words + fmt::format(" and {} more", workers.size() - named);
    words += (named++ == 0 ? "" : ", ") + std::to_string(r.value);
  }
  return words;
}

} // namespace

/// What a gradient holds while it arrives.
struct transit::gradient_room {
  gradient_room(std::shared_ptr<transit> of_all, rank worker, std::uint64_t size)
      : of(std::move(of_all)), from(worker), bytes(size) {}
  gradient_room(const gradient_room&) = delete;
  gradient_room& operator=(const gradient_room&) = delete;
  ~gradient_room() { of->has_arrived(from, bytes); }

  std::shared_ptr<transit> of;
  rank from;
  std::uint64_t bytes;
};

/// What weights hold while they leave to anybody.
struct transit::weights_room {
  weights_room(std::shared_ptr<transit> of_all, std::shared_ptr<const void> values, std::uint64_t size)
      : of(std::move(of_all)), keeps(std::move(values)), bytes(size) {}
  weights_room(const weights_room&) = delete;
  weights_room& operator=(const weights_room&) = delete;
  ~weights_room() { of->has_left(keeps.get(), bytes, of_joins); }

  std::shared_ptr<transit> of;
  std::shared_ptr<const void> keeps;
  std::uint64_t bytes;
  mutable bool of_joins = true; ///< of workers that have just joined alone; under the mutex
};

/// Weights on their way to one worker.
struct transit::departure {
  departure(std::shared_ptr<const weights_room> weights, rank worker)
      : room(std::move(weights)), to(worker) {}
  departure(const departure&) = delete;
  departure& operator=(const departure&) = delete;
  ~departure() { room->of->has_departed(to, room->keeps.get()); }

  std::shared_ptr<const weights_room> room; ///< goes when the worker is counted out
  rank to;
};

transit::transit(std::uint64_t weights, std::uint64_t largest, std::size_t shards) noexcept
    : weights_(weights), most_arriving_(weights + gradients_beside), most_together_(2 * weights + all_beside),
      largest_(largest), shards_(shards) {}

bool transit::fits() const noexcept {
  return arriving_ + largest_ <= most_arriving_ && arriving_ + leaving_ + largest_ <= most_together_;
}

/// Weights that a worker gets when it joins leave without a gradient that could wait, so they may fill all
/// room, and so may those of readers that have become slow. What leaves to fast readers has half of it
/// nevertheless, until all but joins takes half as much again.
bool transit::fits_fast() const {
  const std::uint64_t but_joins = arriving_ + leaving_ - leaving_to_joins_;
  if (but_joins + largest_ > most_together_ + most_together_ / 2) return false;
  std::uint64_t theirs = 0;
  for (const auto& [worker, its] : arrives_)
    if (!is_slow(worker)) theirs += its.bytes;
  for (const auto& [values, v] : leaves_)
    if (!goes_to_slow_alone(v)) theirs += v.bytes;
  return arriving_ + largest_ <= most_arriving_ && theirs + largest_ <= most_together_ / 2;
}

bool transit::goes_to_slow_alone(const version& v) const {
  return std::ranges::all_of(v.to, [this](const auto& reads) { return is_slow(reads.first); });
}

/// Answers to all workers by turns overtake one another once in a turn.
bool transit::is_slow(rank worker) const {
  const auto found = readers_.find(worker);
  if (found == readers_.end()) return false;
  const reader& r = found->second;
  return r.is_slow || (r.under_way > 0 && departed_ - r.since > most_overtaking());
}

std::uint64_t transit::most_overtaking() const noexcept { return 2 * shards_ * readers_.size(); }

/// What slow readers have under way, or are about to, has half of the room. There is always room for one of
/// them.
bool transit::fits_slow() const {
  std::uint64_t theirs = 0;
  for (const auto& [worker, its] : arrives_)
    if (is_slow(worker)) theirs += its.bytes;
  for (const auto& [values, v] : leaves_)
    if (goes_to_slow_alone(v)) theirs += v.bytes;
  return theirs == 0 || theirs + weights_ <= most_together_ / 2;
}

bool transit::has_any_room() {
  const std::lock_guard lock(mutex_);
  if (fits() || fits_fast()) return true;
  refused_ = true;
  return false;
}

bool transit::has_room(rank worker) {
  const std::lock_guard lock(mutex_);
  if (is_slow(worker) ? fits() && fits_slow() : fits() || fits_fast()) return true;
  refused_ = true;
  return false;
}

void transit::when_room(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

/// The caller holds the mutex, so that nothing is called any more when when_room() has taken the call back.
void transit::call_if_room() {
  if (!refused_ || !(fits() || fits_fast())) return;
  refused_ = false;
  if (call_) call_();
}

std::shared_ptr<const void> transit::arriving(rank from, std::uint64_t bytes) {
  auto made = std::make_shared<const gradient_room>(shared_from_this(), from, bytes);
  const std::lock_guard lock(mutex_);
  arriving_ += bytes;
  gradients& its = arrives_[from];
  ++its.count;
  its.bytes += bytes;
  return made;
}

std::shared_ptr<const void> transit::leaving(rank to, std::shared_ptr<const void> values,
                                             std::uint64_t bytes) {
  const void* const which = values.get();
  const std::lock_guard lock(mutex_);
  version& v = leaves_[which];
  auto room = v.room.lock();
  if (!room) {
    room = std::make_shared<const weights_room>(shared_from_this(), std::move(values), bytes);
    v = {room, bytes, {}};
    leaving_ += bytes;
    leaving_to_joins_ += bytes;
  }
  ++v.to[to];
  const bool joins = !readers_.contains(to);
  if (!joins && room->of_joins) leaving_to_joins_ -= bytes;
  room->of_joins = room->of_joins && joins;
  if (reader& r = readers_[to]; r.under_way++ == 0) r.since = departed_;
  return std::make_shared<const departure>(std::move(room), to);
}

void transit::has_arrived(rank from, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  arriving_ -= bytes;
  gradients& its = arrives_.at(from);
  its.bytes -= bytes;
  if (--its.count == 0) arrives_.erase(from);
  call_if_room();
}

/// Who is overtaken by few becomes fast again.
void transit::has_departed(rank to, const void* values) {
  const std::lock_guard lock(mutex_);
  if (const auto found = leaves_.find(values); found != leaves_.end())
    if (const auto reads = found->second.to.find(to); reads != found->second.to.end() && --reads->second == 0)
      found->second.to.erase(reads);
  reader& r = readers_.at(to);
  r.is_slow = departed_ - r.since > most_overtaking();
  ++departed_;
  r.since = departed_; // of what else is under way to it
  --r.under_way;
  call_if_room();
}

/// The same values may be on their way out again by now.
void transit::has_left(const void* values, std::uint64_t bytes, bool of_joins) {
  const std::lock_guard lock(mutex_);
  leaving_ -= bytes;
  if (of_joins) leaving_to_joins_ -= bytes;
  if (const auto found = leaves_.find(values); found != leaves_.end() && found->second.room.expired())
    leaves_.erase(found);
  call_if_room();
}

std::uint64_t transit::arriving_bytes() const {
  const std::lock_guard lock(mutex_);
  return arriving_;
}

std::uint64_t transit::leaving_bytes() const {
  const std::lock_guard lock(mutex_);
  return leaving_;
}

std::string transit::who_fills_it(rank worker) const {
  const std::lock_guard lock(mutex_);
  const bool waits_for_slow = is_slow(worker) && fits();
  std::set<rank> sends, reads;
  for (const auto& [from, its] : arrives_)
    if (!waits_for_slow || is_slow(from)) sends.insert(from);
  for (const auto& [values, v] : leaves_)
    for (const auto& [to, count] : v.to)
      if (!waits_for_slow || is_slow(to)) reads.insert(to);
  std::string words;
  if (!sends.empty()) words = fmt::format("the shards to read gradients of {}", in_words(sends));
  if (!reads.empty())
    words += fmt::format("{}{} to take weights", words.empty() ? "" : ", and for ", in_words(reads));
  return words;
}

std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards) {
  if (net::is_memory_address(address)) return nullptr;
  std::uint64_t all = 0, largest = 0;
  for (const std::uint32_t s : shards) {
    const std::uint64_t bytes = layout.shard(s).size() * sizeof(float);
    all += bytes;
    largest = std::max(largest, bytes);
  }
  return std::make_shared<transit>(all, largest, shards.size());
}

} // namespace mailgrad::remote
