#include <mailgrad/actors/remote/transit.hpp>

#include <mailgrad/net/memory/memory_address.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::remote {

namespace {

constexpr std::uint64_t gradients_beside = 16 << 20;
constexpr std::uint64_t all_beside = 24 << 20;

} // namespace

/// What a gradient holds while it arrives.
struct transit::gradient_room {
  gradient_room(std::shared_ptr<transit> of_all, std::uint64_t size) : of(std::move(of_all)), bytes(size) {}
  gradient_room(const gradient_room&) = delete;
  gradient_room& operator=(const gradient_room&) = delete;
  ~gradient_room() { of->has_arrived(bytes); }

  std::shared_ptr<transit> of;
  std::uint64_t bytes;
};

/// What weights hold while they leave.
struct transit::weights_room {
  weights_room(std::shared_ptr<transit> of_all, std::shared_ptr<const void> values, std::uint64_t size)
      : of(std::move(of_all)), keeps(std::move(values)), bytes(size) {}
  weights_room(const weights_room&) = delete;
  weights_room& operator=(const weights_room&) = delete;
  ~weights_room() { of->has_left(keeps.get(), bytes); }

  std::shared_ptr<transit> of;
  std::shared_ptr<const void> keeps;
  std::uint64_t bytes;
};

transit::transit(std::uint64_t weights, std::uint64_t largest) noexcept
    : most_arriving_(weights + gradients_beside), most_together_(2 * weights + all_beside),
      largest_(largest) {}

bool transit::fits() const noexcept {
  return arriving_ + largest_ <= most_arriving_ && arriving_ + leaving_ + largest_ <= most_together_;
}

bool transit::has_room() {
  const std::lock_guard lock(mutex_);
  if (fits()) return true;
  refused_ = true;
  return false;
}

void transit::when_room(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

/// The caller holds the mutex, so that nothing is called any more when when_room() has taken the call back.
void transit::call_if_room() {
  if (!refused_ || !fits()) return;
  refused_ = false;
  if (call_) call_();
}

std::shared_ptr<const void> transit::arriving(std::uint64_t bytes) {
  auto made = std::make_shared<const gradient_room>(shared_from_this(), bytes);
  const std::lock_guard lock(mutex_);
  arriving_ += bytes;
  return made;
}

std::shared_ptr<const void> transit::leaving(std::shared_ptr<const void> values, std::uint64_t bytes) {
  const void* const which = values.get();
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const void>& known = leaves_[which];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<const weights_room>(shared_from_this(), std::move(values), bytes);
  known = made;
  leaving_ += bytes;
  return made;
}

void transit::has_arrived(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  arriving_ -= bytes;
  call_if_room();
}

/// The same values may be on their way out again by now.
void transit::has_left(const void* values, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  leaving_ -= bytes;
  if (const auto found = leaves_.find(values); found != leaves_.end() && found->second.expired())
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

std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards) {
  if (net::is_memory_address(address)) return nullptr;
  std::uint64_t all = 0, largest = 0;
  for (const std::uint32_t s : shards) {
    const std::uint64_t bytes = layout.shard(s).size() * sizeof(float);
    all += bytes;
    largest = std::max(largest, bytes);
  }
  return std::make_shared<transit>(all, largest);
}

} // namespace mailgrad::remote
