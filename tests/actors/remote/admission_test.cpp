#include <mailgrad/actors/remote/admission.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/drawn_orders.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <numeric>
#include <ostream>

namespace mailgrad::remote {
namespace {

using ::testing::ElementsAre;

/// Workers whose sessions have the numbers of their ranks.
struct GradientCredit : ::testing::Test {
  explicit GradientCredit(std::vector<std::uint32_t> shards = {0}, std::size_t most = 3)
      : credit(std::make_shared<gradient_credit>(std::move(shards), most)) {}

  void add(std::uint32_t workers) {
    given.resize(std::max<std::size_t>(given.size(), workers));
    for (std::uint32_t r = 0; r < workers; ++r) add_one(r);
  }
  void add_one(std::uint32_t r) {
    credit->add(r, {r}, [this, r](std::uint32_t bodies) { given[r] += bodies; });
  }
  void send(std::uint32_t r, std::uint32_t shard = 0) {
    ASSERT_GT(given[r], 0U) << "worker " << r;
    --given[r];
    kept[r].push_back(credit->arriving(r, shard));
    if (credit->gives_back(r)) ++given[r];
  }
  /// The gradient is added up, and the shard awaits another first.
  void add_up(std::uint32_t r, std::optional<rank> next, std::uint64_t version = 0) {
    credit->await(0, next, {version});
    kept[r].clear();
  }

  std::shared_ptr<gradient_credit> credit;
  std::vector<std::uint32_t> given;
  std::map<std::uint32_t, std::vector<std::shared_ptr<const void>>> kept;
};

TEST_F(GradientCredit, IsGivenToTheFirstOfTheSumWhenTheShardHasSaidWhoTheyAre) {
  add(6);
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 0, 0, 0));
  credit->await(0, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 0, 0, 0));
}

TEST_F(GradientCredit, GoesOnAsTheSumDoes) {
  add(6);
  credit->await(0, rank{0}, {});
  send(2);
  EXPECT_THAT(given, ElementsAre(1, 1, 0, 0, 0, 0)) << "it is kept";
  send(0);
  add_up(0, rank{1});
  EXPECT_THAT(given, ElementsAre(0, 1, 0, 1, 0, 0));
  send(1);
  add_up(1, rank{3});
  kept[2].clear();
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 1, 1, 1));
  for (const std::uint32_t r : {3U, 4U}) send(r), add_up(r, rank{r + 1});
  EXPECT_THAT(given, ElementsAre(1, 1, 0, 0, 0, 1)) << "the first of the next sum";
}

TEST_F(GradientCredit, IsThereForWhomeverTheSumAwaitsFirst) {
  given.resize(6);
  for (std::uint32_t r = 2; r < 6; ++r) add_one(r);
  credit->await(0, rank{2}, {});
  EXPECT_THAT(given, ElementsAre(0, 0, 1, 1, 1, 0));
  add_one(1);
  credit->await(0, rank{1}, {});
  EXPECT_THAT(given, ElementsAre(0, 1, 1, 1, 1, 0)) << "else all would wait for it";
}

TEST_F(GradientCredit, GoesToOthersWhenAWorkerEnds) {
  add(5);
  credit->await(0, rank{0}, {});
  send(1);
  credit->remove(0);
  credit->await(0, rank{1}, {});
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 0)) << "what worker 0 was given is of no use to it";
  credit->remove(1);
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 0)) << "its gradient is still kept";
  kept[1].clear();
  credit->await(0, rank{2}, {});
  EXPECT_THAT(given, ElementsAre(1, 0, 1, 1, 1));
}

TEST_F(GradientCredit, IsGivenBackWhileGradientsHaveNoTurns) {
  add(5);
  credit->await(0, std::nullopt, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
  send(4);
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
  credit->await(0, rank{0}, {});
  send(4);
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 0)) << "from now on it is kept";
  credit->await(0, std::nullopt, {});
  EXPECT_THAT(given, ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(GradientCredit, SaysBehindWhomAWorkerWaits) {
  add(6);
  EXPECT_EQ(credit->waits_behind(5), std::nullopt);
  credit->await(0, rank{0}, {});
  EXPECT_EQ(credit->waits_behind(5), rank{0});
  EXPECT_EQ(credit->waits_behind(2), std::nullopt) << "it has credit";
  send(2);
  EXPECT_EQ(credit->waits_behind(2), std::nullopt) << "it has sent its gradient";
  credit->await(0, std::nullopt, {});
  EXPECT_EQ(credit->waits_behind(5), std::nullopt);
}

struct CreditOfTwoShards : GradientCredit {
  CreditOfTwoShards() : GradientCredit({1, 4}, 2) {}
};

TEST_F(CreditOfTwoShards, FollowsTheOneThatIsBehind) {
  add(5);
  credit->await(1, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(0, 0, 0, 0, 0)) << "the other has not said whom it awaits";
  credit->await(4, rank{0}, {});
  EXPECT_THAT(given, ElementsAre(2, 2, 0, 0, 0));
  send(0, 1);
  credit->await(1, rank{1}, {});
  kept[0].clear();
  EXPECT_THAT(given, ElementsAre(1, 2, 0, 0, 0));
  send(0, 4);
  credit->await(4, rank{1}, {});
  kept[0].clear();
  EXPECT_THAT(given, ElementsAre(0, 2, 2, 0, 0));
  send(1, 1);
  credit->await(1, rank{0}, {1});
  EXPECT_THAT(given, ElementsAre(0, 1, 2, 0, 0)) << "of the next sum, while the other awaits worker 1";
}

TEST(CreditBy, IsThereWhereNotAllGradientsFindRoom) {
  const parameter_layout layout = testing::layout_of({{"w", {1 << 20}}}, 2);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0, 1}, 5, 1), nullptr);
  EXPECT_NE(credit_by("127.0.0.1:0", layout, {0, 1}, 6, 1), nullptr);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 9, 1), nullptr) << "a half of each";
  EXPECT_EQ(credit_by("memory:", layout, {0, 1}, 6, 1), nullptr);
}

TEST(CreditBy, LetsTwoComeHoweverLargeTheyAre) {
  const parameter_layout layout = testing::layout_of({{"w", {8 << 20}}}, 1);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 2, 1), nullptr);
  EXPECT_NE(credit_by("127.0.0.1:0", layout, {0}, 3, 1), nullptr);
}

/// Their gradients are kept until all have come, so turns would save nothing.
TEST(CreditBy, IsNotThereForWhatIsNotAddedUpBefore) {
  const parameter_layout layout = testing::layout_of({{"w", {1 << 20}}}, 1);
  EXPECT_EQ(credit_by("127.0.0.1:0", layout, {0}, 64, 2), nullptr) << "devices";
  const std::vector<placed_variable> with_a_table{{"w", shape{1 << 20}, {}, 0, false},
                                                  {"t", shape{1 << 10, 16}, {}, 0, true}};
  EXPECT_EQ(credit_by("127.0.0.1:0", parameter_layout(with_a_table, 1), {0}, 64, 1), nullptr);
}

// The credit of workers whose gradients are added up, in drawn orders of what they and the shards do.

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

constexpr std::uint64_t mib = 1 << 20;
constexpr rank any{0}; ///< where it does not matter whose it is

TEST(Transit, LetsOneGradientOfAnySizeArrive) {
  const auto t = std::make_shared<transit>(1000 * mib, 1000 * mib);
  EXPECT_TRUE(t->has_room(any));
  const auto room = t->arriving(any, 1000 * mib);
  EXPECT_FALSE(t->has_room(any));
}

TEST(Transit, HasRoomForAsMuchHoweverManyComeAndGo) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  t->leaving(any, std::make_shared<int>(), 2 * mib).reset(); // it reads fast
  std::vector<std::shared_ptr<const void>> gradients, weights;
  while (t->has_room(any)) gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_EQ(gradients.size(), 9U) << "2 + 16 MiB";
  gradients.clear();
  while (t->has_room(any)) weights.push_back(t->leaving(any, std::make_shared<int>(), 2 * mib));
  EXPECT_EQ(weights.size(), 14U) << "2 * 2 + 24 MiB";
  EXPECT_EQ(t->leaving_bytes(), 28 * mib);
}

TEST(Transit, CountsWeightsThatLeaveToManyOnce) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  const auto version = std::make_shared<int>();
  auto to_first = t->leaving({0}, version, 2 * mib);
  auto to_second = t->leaving({1}, version, 2 * mib);
  EXPECT_EQ(t->leaving_bytes(), 2 * mib);
  to_first.reset();
  EXPECT_EQ(t->leaving_bytes(), 2 * mib);
  to_second.reset();
  EXPECT_EQ(t->leaving_bytes(), 0U);
  EXPECT_EQ(version.use_count(), 1) << "it holds nothing that has left";
}

TEST(Transit, CallsWhoFoundNoRoomWhenThereIsSome) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  int calls = 0;
  t->when_room([&] { ++calls; });
  std::vector<std::shared_ptr<const void>> gradients;
  while (gradients.size() < 9) gradients.push_back(t->arriving(any, 2 * mib));
  gradients.pop_back();
  EXPECT_EQ(calls, 0) << "nobody has asked";
  gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_FALSE(t->has_room(any));
  gradients.pop_back();
  gradients.pop_back();
  EXPECT_EQ(calls, 1) << "once, until somebody asks again";
  EXPECT_TRUE(t->has_any_room());
  gradients.resize(9);
  for (auto& g : gradients) g = t->arriving(any, 2 * mib);
  EXPECT_FALSE(t->has_any_room());
  gradients.pop_back();
  EXPECT_EQ(calls, 2) << "to be told that nobody has room is to ask, too";
  gradients.push_back(t->arriving(any, 2 * mib));
  EXPECT_FALSE(t->has_room(any));
  t->when_room({});
  gradients.clear();
  EXPECT_EQ(calls, 2);
}

/// A process with shards, to which workers 0 to 2 send gradients as fast as they are answered, and others
/// that take no weights.
struct SlowReaders : ::testing::Test {
  /// The worker exchanges a gradient for weights, and takes them at once. False if there is no room for it.
  bool exchange(rank worker) {
    if (!t->has_room(worker)) return false;
    t->arriving(worker, 2 * mib).reset();
    t->leaving(worker, std::make_shared<int>(), 2 * mib).reset();
    return true;
  }
  /// The same, but the weights stay on their way.
  bool begin(rank worker) {
    if (!t->has_room(worker)) return false;
    t->arriving(worker, 2 * mib).reset();
    under_way[worker.value] = t->leaving(worker, std::make_shared<int>(), 2 * mib);
    return true;
  }
  void go_on(int rounds) {
    for (int i = 0; i < rounds; ++i)
      for (std::uint32_t r = 0; r < fast; ++r) ASSERT_TRUE(exchange({r})) << r;
  }

  static constexpr std::uint32_t fast = 3, slow = 20;
  std::shared_ptr<transit> t = std::make_shared<transit>(2 * mib, 2 * mib);
  std::vector<std::shared_ptr<const void>> under_way{fast + slow};
};

/// The room of 28 MiB would have 14 versions of 2 MiB.
TEST_F(SlowReaders, HaveHalfOfTheRoomAndHoldUpNobodyElse) {
  const auto first = std::make_shared<int>();
  for (std::uint32_t r = 0; r < fast + slow; ++r) under_way[r] = t->leaving({r}, first, 2 * mib);
  for (std::uint32_t r = 0; r < fast; ++r) under_way[r].reset();
  go_on(40); // so that the first weights of the others are overtaken by 120
  for (std::uint32_t r = fast; r < fast + slow; ++r) under_way[r].reset();
  std::uint32_t begun = 0;
  for (std::uint32_t r = fast; r < fast + slow; ++r) begun += begin({r}) ? 1 : 0;
  EXPECT_EQ(begun, 7U);
  go_on(40);
  EXPECT_EQ(t->who_fills_it({fast + slow - 1}), "workers 3, 4, 5, 6, 7, 8, 9 to take weights");
  int calls = 0;
  t->when_room([&] { ++calls; });
  EXPECT_FALSE(t->has_room({fast + slow - 1}));
  under_way[fast].reset();
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(t->has_room({fast + slow - 1})) << "one has taken its weights, so there is room for another";
}

/// Each gets the version that is the newest when it joins, which waits for no room.
TEST_F(SlowReaders, HoldUpNobodyWhenTheyJoinLate) {
  for (std::uint32_t r = 0; r < fast; ++r) t->leaving({r}, std::make_shared<int>(), 2 * mib).reset();
  for (std::uint32_t r = fast; r < fast + slow; ++r)
    under_way[r] = t->leaving({r}, std::make_shared<int>(), 2 * mib);
  ASSERT_GT(t->leaving_bytes(), 28 * mib) << "which is all the room";
  go_on(10);
  std::vector<std::shared_ptr<const void>> gradients;
  while (t->has_room({0})) gradients.push_back(t->arriving({0}, 2 * mib));
  EXPECT_EQ(gradients.size(), 7U) << "half of the room";
  int calls = 0;
  t->when_room([&] { ++calls; });
  EXPECT_FALSE(t->has_room({0}));
  gradients.pop_back();
  EXPECT_EQ(calls, 1);
}

/// Nine are slow, and seven of them fill their half of the room.
TEST_F(SlowReaders, AreFastAgainWhenTheyAre) {
  const auto first = std::make_shared<int>();
  for (std::uint32_t r = 0; r < 12; ++r) under_way[r] = t->leaving({r}, first, 2 * mib);
  for (std::uint32_t r = 0; r < fast; ++r) under_way[r].reset();
  go_on(40);
  for (std::uint32_t r = fast; r < 12; ++r) under_way[r].reset();
  ASSERT_TRUE(begin({3}));
  go_on(1);
  under_way[3].reset(); // overtaken by three answers
  for (std::uint32_t r = 4; r < 11; ++r) ASSERT_TRUE(begin({r})) << r;
  EXPECT_TRUE(begin({3}));
  EXPECT_FALSE(begin({11}));
}

/// Each was fast when its weights began to leave, and holds them now.
TEST_F(SlowReaders, FillABoundedRoomHoweverManyStall) {
  constexpr std::uint32_t many = 60;
  under_way.resize(many);
  for (std::uint32_t r = 0; r < many; ++r) t->leaving({r}, std::make_shared<int>(), 2 * mib).reset();
  for (std::uint32_t r = fast; r < many; ++r) {
    if (!begin({r})) break;
    for (std::uint32_t i = 0; i < many; ++i)
      for (std::uint32_t f = 0; f < fast && t->has_room({f}); ++f)
        t->leaving({f}, std::make_shared<int>(), 2 * mib).reset();
  }
  EXPECT_LE(t->leaving_bytes(), 42 * mib) << "28 MiB, and half as much again";
  EXPECT_GT(t->leaving_bytes(), 28 * mib);
}

TEST(Transit, LetsOneSlowReaderInHoweverLargeTheWeights) {
  const auto t = std::make_shared<transit>(1000 * mib, 1000 * mib);
  auto slow = t->leaving({0}, std::make_shared<int>(), 1000 * mib);
  for (int i = 0; i < 10; ++i) t->leaving({1}, std::make_shared<int>(), 1000 * mib).reset();
  slow.reset();
  EXPECT_TRUE(t->has_room({0}));
  slow = t->leaving({0}, std::make_shared<int>(), 1000 * mib);
  EXPECT_TRUE(t->has_room({1})) << "the other goes on meanwhile";
}

TEST(Transit, NamesWhoFillsIt) {
  const auto t = std::make_shared<transit>(2 * mib, 2 * mib);
  EXPECT_EQ(t->who_fills_it({9}), "");
  std::vector<std::shared_ptr<const void>> held;
  for (std::uint32_t r = 0; r < 10; ++r) held.push_back(t->leaving({r}, std::make_shared<int>(), mib));
  EXPECT_EQ(t->who_fills_it({11}), "workers 0, 1, 2, 3, 4, 5, 6, 7 and 2 more to take weights");
  held.resize(1);
  held.push_back(t->arriving({3}, 2 * mib));
  EXPECT_EQ(t->who_fills_it({11}),
            "the shards to read gradients of worker 3, and for worker 0 to take weights");
}

} // namespace
} // namespace mailgrad::remote
