#pragma once

#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// Ranks of one process that talk as those of MPI do: messages of one tag keep their order, a small one is
/// copied when it is sent, and a large one is read from where it lies when it is received.
///
/// Threads any.
class played_world {
public:
  explicit played_world(int size) : size_(size) {}

  /// What the rank has of MPI.
  std::unique_ptr<mpi_calls> rank(int number);
  /// Every call fails from now on.
  void fail() { fails_ = true; }
  /// How many ranks have ended MPI.
  int ended() const { return ended_; }
  /// How many of them have not waited until all had come to their end.
  int ended_early() const { return ended_early_; }
  /// How many ranks have come to their end.
  int coming_to_end() {
    const std::lock_guard guard(mutex_);
    return coming_to_end_;
  }

private:
  class one;
  /// A sum that some ranks have begun.
  struct sum {
    std::vector<std::span<float>> parts; ///< by the order in which they came
    std::vector<int> ranks;
    std::vector<std::shared_ptr<std::atomic<bool>>> gone;
  };
  void add_up(sum& of);
  struct message {
    int from = 0;
    byte_view data;
    bytes copy;
    std::shared_ptr<std::atomic<bool>> gone;
  };

  static constexpr std::size_t eager_bytes = 1024;

  const int size_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::deque<message>> boxes_; ///< of a rank and a tag
  int coming_to_end_ = 0;
  std::map<std::size_t, sum> sums_; ///< by their number
  std::atomic<int> ended_{0}, ended_early_{0};
  std::atomic<bool> fails_{false};
};

class played_world::one final : public mpi_calls {
public:
  one(played_world& world, int number) : world_(&world), number_(number) {}

  place begin() override { return {number_, world_->size_}; }
  request send(int to, int tag, byte_view data) override {
    const auto guard = entered();
    message m{number_, data, {}, std::make_shared<std::atomic<bool>>(false)};
    if (data.size() <= eager_bytes) {
      m.copy.assign(data.begin(), data.end());
      m.data = {};
      *m.gone = true;
    }
    under_way_[++last_] = m.gone;
    world_->boxes_[{to, tag}].push_back(std::move(m));
    return last_;
  }
  bool is_done(request& r) override {
    const auto guard = entered();
    if (r == end_request) return world_->coming_to_end_ == world_->size_;
    if (!*under_way_.at(r)) return false;
    under_way_.erase(r);
    return true;
  }
  /// Lets every rank wait until the last of them has come.
  request begin_sum(std::span<float> values) override {
    const auto guard = entered();
    sum& mine = world_->sums_[begun_sums_++];
    under_way_[++last_] = std::make_shared<std::atomic<bool>>(false);
    mine.parts.push_back(values);
    mine.ranks.push_back(number_);
    mine.gone.push_back(under_way_[last_]);
    if (std::ssize(mine.parts) == world_->size_ - 1) world_->add_up(mine);
    return last_;
  }
  std::optional<waiting> look(int from, int tag) override {
    const auto guard = entered();
    for (const message& m : world_->boxes_[{number_, tag}])
      if (from == anybody || m.from == from) return waiting{m.from, content(m).size()};
    return std::nullopt;
  }
  void receive(int from, int tag, std::span<std::byte> to) override {
    const auto guard = entered();
    auto& box = world_->boxes_[{number_, tag}];
    const auto found = std::find_if(box.begin(), box.end(), [&](const message& m) { return m.from == from; });
    if (found == box.end() || content(*found).size() != to.size())
      throw std::logic_error("played MPI: received what look() has not found");
    std::ranges::copy(content(*found), to.begin());
    *found->gone = true;
    box.erase(found);
  }
  request begin_end() override {
    const auto guard = entered();
    ++world_->coming_to_end_;
    return end_request;
  }
  void end() override {
    const auto guard = entered();
    if (world_->coming_to_end_ < world_->size_) ++world_->ended_early_;
    ++world_->ended_;
  }

private:
  static constexpr request end_request = 0;

  static byte_view content(const message& m) { return m.data.empty() ? byte_view{m.copy} : m.data; }
  std::unique_lock<std::mutex> entered() {
    if (world_->fails_) throw std::runtime_error("MPI: a cable was cut");
    return std::unique_lock(world_->mutex_);
  }

  played_world* world_;
  int number_;
  request last_ = end_request;
  std::size_t begun_sums_ = 0;
  std::map<request, std::shared_ptr<std::atomic<bool>>> under_way_;
};

/// In the order of ranks, so that it has the same bits each time.
inline void played_world::add_up(sum& of) {
  std::vector<float> whole(of.parts.front().size());
  for (int r = 1; r < size_; ++r) {
    const auto at = std::ranges::find(of.ranks, r) - of.ranks.begin();
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += of.parts.at(static_cast<std::size_t>(at))[i];
  }
  for (const std::span<float> part : of.parts) {
    if (part.size() != whole.size()) throw std::logic_error("played MPI: a sum of two sizes");
    std::ranges::copy(whole, part.begin());
  }
  for (const auto& g : of.gone) *g = true;
}

inline std::unique_ptr<mpi_calls> played_world::rank(int number) {
  return std::make_unique<one>(*this, number);
}

} // namespace mailgrad::net
