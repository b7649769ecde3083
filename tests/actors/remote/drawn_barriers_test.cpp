#include <mailgrad/actors/remote/admission.hpp>

#include <mailgrad/optim/policies/sync.hpp>

#include <mailgrad/tests/support/drawn_orders.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

// The credit of workers whose gradients are added up, in drawn orders of what they and the shards do.

namespace mailgrad::remote {
namespace {

struct barrier_plan {
  std::string name;
  std::uint32_t workers = 64, shards = 1;
  std::size_t most = 8;
  std::uint32_t late = 0;     ///< workers that connect when others have begun
  std::uint32_t kills = 0;    ///< workers that are lost; every second one comes back
  std::uint32_t switches = 0; ///< times that gradients of a shard have turns no more, or have some again
};

void PrintTo(const barrier_plan& p, std::ostream* out) { *out << p.name; }

/// A barrier over workers that come, go and send in a drawn order, and shards that add up what they can, as
/// gradient_batch does.
class drawn_barrier {
public:
  static constexpr std::uint64_t steps = 4;

  drawn_barrier(testing::drawn_order& order, barrier_plan plan)
      : order_(order), plan_(std::move(plan)), shards_(plan_.shards) {
    std::vector<std::uint32_t> all(plan_.shards);
    std::iota(all.begin(), all.end(), 0U);
    credit_ = std::make_shared<gradient_credit>(all, plan_.most);
    for (std::uint32_t r = 0; r < plan_.workers; ++r) {
      for (shard_side& s : shards_) s.rule.join({r});
      absent_.push_back(r);
    }
    settle();
    while (absent_.size() > plan_.late) come();
  }

  /// Goes on until all workers have trained their steps. Empty, or what went wrong.
  std::string go_on() {
    while (!is_over()) {
      meddle();
      std::vector<std::uint32_t> can_send;
      for (const auto& [r, w] : workers_)
        if (w.credit > 0 && !w.to_send.empty()) can_send.push_back(r);
      if (!can_send.empty())
        send(can_send[order_.below(can_send.size())]);
      else if (!absent_.empty())
        come();
      else
        return "nobody can send:" + in_words();
      most_kept_ = std::max(most_kept_, kept());
    }
    return {};
  }
  std::size_t most_kept() const { return most_kept_; }
  std::size_t came() const { return sessions_; }

private:
  struct kept_gradient {
    std::uint32_t worker;
    std::shared_ptr<const void> credit;
  };
  struct shard_side {
    sync_policy rule{};
    std::uint64_t version = 0;
    std::vector<kept_gradient> kept{}, spent{};
    bool has_turns = true;
  };
  struct worker {
    std::uint64_t session = 0, step = 0;
    std::uint32_t credit = 0;
    std::deque<std::uint32_t> to_send{};   ///< to these shards
    std::vector<std::uint32_t> waits_at{}; ///< these
    bool joined = false, done = false;
  };

  bool is_over() const {
    return absent_.empty() && std::ranges::all_of(workers_, [](const auto& w) { return w.second.done; });
  }
  std::size_t kept() const {
    std::size_t all = 0;
    for (const shard_side& s : shards_) all += s.kept.size();
    return all;
  }
  std::string in_words() const {
    std::string all;
    for (const auto& [r, w] : workers_)
      if (!w.to_send.empty()) all += fmt::format(" {} of step {} (credit {})", r, w.step, w.credit);
    return all;
  }

  void meddle() {
    if (plan_.kills > 0 && workers_.size() > 2 && order_.below(20) == 0) kill();
    if (plan_.switches > 0 && order_.below(40) == 0) {
      --plan_.switches;
      shard_side& s = shards_[order_.below(shards_.size())];
      s.has_turns = !s.has_turns;
      settle();
    }
    if (!absent_.empty() && order_.below(10) == 0) come();
  }
  void come() {
    const auto which = absent_.begin() + static_cast<std::ptrdiff_t>(order_.below(absent_.size()));
    const std::uint32_t r = *which;
    absent_.erase(which);
    worker& w = workers_[r];
    w.session = ++sessions_;
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      shards_[s].rule.join({r});
      w.waits_at.push_back(s);
    }
    credit_->add(w.session, {r}, [this, r](std::uint32_t bodies) { workers_.at(r).credit += bodies; });
    settle();
  }
  void kill() {
    const auto lost = std::next(workers_.begin(), static_cast<std::ptrdiff_t>(order_.below(workers_.size())));
    const std::uint32_t r = lost->first;
    credit_->remove(lost->second.session);
    workers_.erase(lost);
    for (shard_side& s : shards_) s.rule.leave({r});
    if (--plan_.kills % 2 == 0) absent_.push_back(r);
    settle();
  }
  void send(std::uint32_t r) {
    worker& w = workers_.at(r);
    const std::uint32_t s = w.to_send.front();
    w.to_send.pop_front();
    w.waits_at.push_back(s);
    --w.credit;
    auto held = credit_->arriving(w.session, s);
    if (credit_->gives_back(w.session)) ++w.credit;
    ASSERT_EQ(shards_[s].rule.judge({{r}, {}, {}, {}}).what, verdict::merge);
    shards_[s].kept.push_back({r, std::move(held)});
    settle();
  }

  /// Shards add up and answer, and workers begin their next steps, until nothing changes any more.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (shard_side& s : shards_) changed = add_up(s) || changed;
      for (auto& [r, w] : workers_) changed = go_on(r, w) || changed;
    }
    for (std::uint32_t s = 0; s < shards_.size(); ++s)
      credit_->await(s, shards_[s].has_turns ? shards_[s].rule.first_awaited() : std::nullopt,
                     {shards_[s].version});
    for (shard_side& s : shards_) s.spent.clear(); // when it is told who is awaited now
  }
  static bool add_up(shard_side& s) {
    if (s.rule.batch_complete()) {
      std::ranges::move(std::exchange(s.kept, {}), std::back_inserter(s.spent));
      s.rule.batch_applied();
      ++s.version;
      return true;
    }
    if (const auto first = s.rule.first_awaited())
      std::erase_if(s.kept, [&](kept_gradient& g) {
        if (g.worker >= first->value) return false;
        s.spent.push_back(std::move(g));
        return true;
      });
    return false;
  }
  bool go_on(std::uint32_t r, worker& w) {
    const auto answered =
        std::erase_if(w.waits_at, [&](std::uint32_t s) { return w.done || shards_[s].rule.may_start({r}); });
    if (answered == 0 || !w.waits_at.empty() || !w.to_send.empty()) return answered > 0;
    w.step += std::exchange(w.joined, true) ? 1 : 0;
    w.done = w.step == steps;
    for (std::uint32_t s = 0; s < shards_.size(); ++s)
      if (w.done)
        shards_[s].rule.leave({r});
      else
        w.to_send.push_back(s);
    return true;
  }

  testing::drawn_order& order_;
  barrier_plan plan_;
  std::shared_ptr<gradient_credit> credit_;
  std::vector<shard_side> shards_;
  std::map<std::uint32_t, worker> workers_; ///< by rank
  std::vector<std::uint32_t> absent_;       ///< ranks of which somebody comes later
  std::uint64_t sessions_ = 0;
  std::size_t most_kept_ = 0;
};

struct DrawnBarriers : ::testing::TestWithParam<barrier_plan> {};

/// Beside those that credit was given for by turns, the first of a sum may keep one, and so may each that
/// came late. There is credit for more after a switch, and when a worker that was lost between two shards is
/// awaited by one of them while it waits for the other.
TEST_P(DrawnBarriers, EndAndKeepAFewGradientsWhateverTheOrder) {
  const barrier_plan& plan = GetParam();
  for (testing::drawn_order& order : testing::drawn_orders(200)) {
    drawn_barrier barrier(order, plan);
    ASSERT_EQ(barrier.go_on(), "");
    if (plan.switches > 0 || (plan.kills > 0 && plan.shards > 1)) continue;
    const std::size_t late = plan.late + barrier.came() - plan.workers;
    EXPECT_LE(barrier.most_kept(), plan.shards * (plan.most + 1 + late));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DrawnBarriers,
    ::testing::Values(
        barrier_plan{.name = "OneShard"}, barrier_plan{.name = "ThreeShards", .shards = 3},
        barrier_plan{.name = "RoomForOne", .shards = 2, .most = 1},
        barrier_plan{.name = "LateWorkers", .shards = 2, .late = 5},
        barrier_plan{.name = "LostWorkers", .most = 4, .kills = 9},
        barrier_plan{.name = "LostBetweenShards", .shards = 3, .most = 4, .kills = 9},
        barrier_plan{.name = "Switches", .shards = 3, .most = 4, .switches = 6},
        barrier_plan{.name = "Everything", .shards = 2, .most = 2, .late = 3, .kills = 5, .switches = 5}),
    [](const auto& tested) { return tested.param.name; });

} // namespace
} // namespace mailgrad::remote
