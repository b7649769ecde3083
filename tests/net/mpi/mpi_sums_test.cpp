#include <mailgrad/net/mpi/mpi_sums.hpp>

#include <mailgrad/net/mpi/mpi_network.hpp>
#include <mailgrad/tests/net/mpi/played_mpi.hpp>

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mailgrad::net {
namespace {

using testing::ElementsAre;

using givers = all_reduce::givers;

/// One rank of a played MPI, which takes its turns when it is told.
struct one_rank {
  one_rank(played_world& world, int rank, int size)
      : mpi(world.rank(rank)), sums(*mpi, {rank, size}, 2), values(2) {}

  void give(float a, float b) {
    values = {a, b};
    sums.add({values, {}, [this](const givers& who) { told.push_back(who); }});
  }

  std::unique_ptr<mpi_calls> mpi;
  mpi_sums sums;
  std::vector<float> values;
  std::vector<givers> told;
};

/// Three workers, which are the ranks 1 to 3.
struct MpiSums : testing::Test {
  void turn() {
    for (int i = 0; i < 4; ++i)
      for (one_rank* r : {&a, &b, &c}) r->sums.turn();
  }

  played_world world{4};
  one_rank a{world, 1, 4}, b{world, 2, 4}, c{world, 3, 4};
};

TEST_F(MpiSums, GiveEveryRankTheSameSumAndTheSameGivers) {
  a.give(1, 10);
  b.give(2, 20);
  turn();
  EXPECT_TRUE(a.told.empty()); // the third is missing
  c.give(4, 40);
  turn();
  for (const one_rank* r : {&a, &b, &c}) {
    EXPECT_THAT(r->values, ElementsAre(7, 70));
    EXPECT_THAT(r->told, ElementsAre(givers{true, true, true}));
  }
}

TEST_F(MpiSums, GoOnWithoutARankThatHasLeft) {
  a.give(1, 1);
  b.give(1, 1);
  c.give(1, 1);
  turn();
  b.sums.leave();
  for (int round = 0; round < 3; ++round) {
    a.give(3, 4);
    c.give(5, 6);
    turn();
    EXPECT_THAT(a.values, ElementsAre(8, 10));
    EXPECT_EQ(a.told.back(), (givers{true, false, true}));
    EXPECT_EQ(c.told.back(), (givers{true, false, true}));
  }
  EXPECT_EQ(b.told.size(), 1U);
  EXPECT_FALSE(b.sums.is_over());
}

TEST_F(MpiSums, AreOverForAllRanksInTheRoundInWhichNobodyGives) {
  a.sums.leave();
  b.give(1, 2);
  c.give(3, 4);
  turn();
  EXPECT_THAT(b.values, ElementsAre(4, 6));
  b.sums.leave();
  turn();
  EXPECT_FALSE(a.sums.is_over() || b.sums.is_over());
  c.sums.leave();
  turn();
  EXPECT_TRUE(a.sums.is_over() && b.sums.is_over() && c.sums.is_over());
  EXPECT_FALSE(a.sums.is_under_way() || b.sums.is_under_way() || c.sums.is_under_way());
}

TEST_F(MpiSums, AreOverWithoutANumberIfNobodyEverGave) {
  for (one_rank* r : {&a, &b, &c}) r->sums.leave();
  turn();
  EXPECT_TRUE(a.sums.is_over() && b.sums.is_over() && c.sums.is_over());
}

TEST_F(MpiSums, LetARankLeaveWhoseNumbersAreUnderWay) {
  a.give(1, 1);
  a.sums.leave();
  b.give(2, 2);
  c.give(3, 3);
  turn();
  EXPECT_EQ(b.told.back(), (givers{true, true, true}));
  EXPECT_THAT(b.values, ElementsAre(6, 6));
  b.give(2, 2);
  c.give(3, 3);
  turn();
  EXPECT_EQ(b.told.back(), (givers{false, true, true}));
  EXPECT_THAT(b.values, ElementsAre(5, 5));
}

TEST_F(MpiSums, RefuseNumbersBesideOthersAndAfterTheEnd) {
  a.give(1, 1);
  EXPECT_THROW(a.give(1, 1), std::runtime_error);
  b.sums.leave();
  EXPECT_THROW(b.give(1, 1), std::runtime_error);
}

/// A server and two workers, each with a thread of its own.
struct MpiNetworkSums : testing::Test {
  /// On a thread of its own, since each waits for the others.
  void end(std::size_t rank) {
    ends.emplace_back([net = std::move(nets[rank])]() mutable { net.reset(); });
  }
  void TearDown() override {
    for (std::size_t r = 0; r < nets.size(); ++r) end(r);
    for (std::thread& t : ends) t.join();
    EXPECT_EQ(world.ended_early(), 0);
  }
  /// Gives `value` to a round and returns the sum when it is there.
  static std::future<float> give(all_reduce& to, float value) {
    const auto values = std::make_shared<std::vector<float>>(1, value);
    const auto told = std::make_shared<std::promise<float>>();
    to.add(*values, values, [values, told](const givers&) { told->set_value(values->front()); });
    return told->get_future();
  }

  played_world world{3};
  std::vector<std::unique_ptr<mpi_network>> nets = [this] {
    std::vector<std::unique_ptr<mpi_network>> made;
    for (int r = 0; r < 3; ++r) made.push_back(std::make_unique<mpi_network>(world.rank(r)));
    return made;
  }();
  std::vector<std::thread> ends;
};

TEST_F(MpiNetworkSums, AddUpOverTheThreadsOfTheirNetworks) {
  const auto first = nets[1]->join_sums(1), second = nets[2]->join_sums(1);
  for (int round = 0; round < 20; ++round) {
    auto one = give(*first, 1), two = give(*second, static_cast<float>(round));
    EXPECT_EQ(one.get(), 1 + static_cast<float>(round));
    EXPECT_EQ(two.get(), 1 + static_cast<float>(round));
  }
}

TEST_F(MpiNetworkSums, LetARankEndWhileAnotherStillGives) {
  auto first = nets[1]->join_sums(1);
  const auto second = nets[2]->join_sums(1);
  first.reset();
  end(1); // it passes until the other has left, too
  end(0);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(give(*second, 5).get(), 5);
  EXPECT_LE(world.coming_to_end(), 1); // rank 0, which has no sums
}

TEST_F(MpiNetworkSums, RefuseRankZeroASecondTimeAndOtherSizes) {
  EXPECT_THROW(nets[0]->join_sums(1), std::invalid_argument);
  const auto first = nets[1]->join_sums(2), second = nets[2]->join_sums(2);
  EXPECT_THROW(nets[1]->join_sums(2), std::invalid_argument);
  std::vector<float> three(3);
  EXPECT_THROW(first->add(three, {}, [](const givers&) {}), std::invalid_argument);
  std::vector<float> two(2);
  EXPECT_THROW(first->add(two, {}, {}), std::invalid_argument);
}

TEST_F(MpiNetworkSums, TellNothingOnceMpiHasFailed) {
  const auto first = nets[1]->join_sums(1);
  world.fail();
  const auto values = std::make_shared<std::vector<float>>(1);
  first->add(*values, values, [](const givers&) { FAIL(); });
}

} // namespace
} // namespace mailgrad::net
