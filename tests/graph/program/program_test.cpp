#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/noting_operation.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>

namespace mailgrad {
namespace {

using test::random_tensor, test::tensor_of;
using testing::ElementsAre, testing::throws;

void run(program& p) {
  p.run(host_stream{}, 0, [] {});
}

std::vector<float> floats(const void* memory, std::size_t n) {
  const auto* first = static_cast<const float*>(memory);
  return {first, first + n};
}

using Program = test::operation_test;

TEST_F(Program, ReadsBoundMemoryAtEveryRun) {
  const value x = g.input("x", {2});
  program p(g, std::vector{x * 2});
  tensor first = tensor_of({2}, {1, 2}), second = tensor_of({2}, {3, 4});
  p.bind(x, first.data());
  run(p);
  EXPECT_THAT(floats(p.fetched(0), 2), ElementsAre(2, 4));
  first.values()[0] = 5;
  run(p);
  EXPECT_THAT(floats(p.fetched(0), 2), ElementsAre(10, 4));
  p.bind(x, second.data());
  run(p);
  EXPECT_THAT(floats(p.fetched(0), 2), ElementsAre(6, 8));
}

TEST_F(Program, WritesFetchesWhereTheyAreWanted) {
  const value x = g.constant(tensor_of({2}, {1, 2}));
  program p(g, std::vector{x + 1, x * 2});
  std::array<float, 2> sum{}, product{};
  p.bind_fetch(0, sum.data());
  p.bind_fetch(1, product.data());
  run(p);
  EXPECT_THAT(sum, ElementsAre(2, 3));
  EXPECT_THAT(product, ElementsAre(2, 4));
}

TEST_F(Program, FetchesSourcesAndOneValueTwice) {
  const value x = g.input("x", {2}), y = x * 2;
  program p(g, std::vector{x, y, y});
  const tensor held = tensor_of({2}, {1, 2});
  p.bind(x, held.data());
  std::array<float, 2> again{};
  p.bind_fetch(2, again.data());
  run(p);
  EXPECT_THAT(floats(p.fetched(0), 2), ElementsAre(1, 2));
  EXPECT_THAT(floats(p.fetched(1), 2), ElementsAre(2, 4));
  EXPECT_THAT(again, ElementsAre(2, 4));
}

/// Values that noting operations make of a constant, and what those are told in a run.
class ProgramTellsKernels : public testing::Test {
protected:
  value note(std::size_t outputs = 1) {
    const auto op = std::make_shared<test::noting_operation>(notes_, outputs);
    return g_.apply(op, {x_}, std::source_location::current()).front();
  }
  /// With the first fetch bound as read later.
  std::vector<next_use> told(std::span<const value> fetches) {
    program p(g_, fetches);
    std::array<float, 2> memory{};
    p.bind_fetch(0, memory.data(), next_use::later);
    run(p);
    EXPECT_THAT(floats(p.fetched(0), 2), ElementsAre(1, 2));
    return *notes_;
  }

  graph g_;
  value x_ = g_.constant(tensor_of({2}, {1, 2}));
  test::noting_operation::notes notes_ = std::make_shared<std::vector<next_use>>();
};

TEST_F(ProgramTellsKernels, ThatTheCallerReadsLater) {
  EXPECT_THAT(told(std::vector{note(), note()}), ElementsAre(next_use::later, next_use::soon));
}

TEST_F(ProgramTellsKernels, NothingWhereOthersReadOrWriteTheSameMemory) {
  const value read = note(), twice = note();
  for (const auto& [how, fetches] : {std::pair("another reads it", std::vector{read, read + 1}),
                                     std::pair("fetched twice", std::vector{twice, twice}),
                                     std::pair("another writes there", std::vector{relu(note())}),
                                     std::pair("several outputs", std::vector{note(2)})}) {
    notes_->clear();
    EXPECT_THAT(told(fetches), ElementsAre(next_use::soon)) << how;
  }
}

TEST_F(ProgramTellsKernels, AnewAtEachBinding) {
  program p(g_, std::vector{note()});
  std::array<float, 2> memory{};
  p.bind_fetch(0, memory.data(), next_use::later);
  run(p);
  p.bind_fetch(0, memory.data());
  run(p);
  EXPECT_THAT(*notes_, ElementsAre(next_use::later, next_use::soon));
}

TEST_F(Program, ComputesOnlyWhatIsFetched) {
  const value x = g.input("x", {2}), other = g.input("other", {2}), y = x * 2;
  exp(other * 3);
  program p(g, std::vector{y});
  EXPECT_TRUE(p.needs(x));
  EXPECT_FALSE(p.needs(other));
  EXPECT_EQ(p.kernel_count(), 1U);
}

TEST_F(Program, RefusesToRunWithoutAnInput) {
  const value x = g.input("pixels", {2});
  program p(g, std::vector{x * 2});
  EXPECT_THAT([&] { run(p); }, throws<std::logic_error>("nothing is bound to 'pixels'"));
}

TEST_F(Program, RefusesValuesOfAnotherGraph) {
  graph other;
  EXPECT_THROW(program(g, std::vector{other.input("x", {2})}), graph_error);
}

TEST_F(Program, SaysWhenARunIsOver) {
  program p(g, std::vector{g.constant(1) + 1});
  int finished = 0;
  p.run(host_stream{}, 0, [&] { ++finished; });
  EXPECT_EQ(finished, 1);
}

TEST_F(Program, NeverWritesIntoSourcesThatItReads) {
  const value x = g.input("x", {4});
  program p(g, std::vector{relu(x)});
  const tensor held = tensor_of({4}, {-1, 2, -3, 4});
  p.bind(x, held.data());
  run(p);
  EXPECT_THAT(held.values(), ElementsAre(-1, 2, -3, 4));
}

TEST_F(Program, OverwritesOnlyWhatNobodyReadsAfterwards) {
  const value x = g.constant(random_tensor({100}, 1)), y = exp(x), z = square(y);
  const auto expected_y = test::run_once(y), expected_z = test::run_once(z);
  program p(g, std::vector{z + 0, y}); // y is read after z was computed from it
  run(p);
  EXPECT_EQ(floats(p.fetched(0), 100), expected_z);
  EXPECT_EQ(floats(p.fetched(1), 100), expected_y);
}

std::size_t arena_of_layers(int count) {
  graph g;
  value h = g.constant(random_tensor({64, 64}, 1));
  const value w = g.constant(random_tensor({64, 64}, 2));
  for (int layer = 0; layer < count; ++layer) h = tanh(matmul(h, w));
  return program(g, {&h, 1}).arena_bytes();
}

TEST_F(Program, ReusesMemoryAlongAChain) { EXPECT_EQ(arena_of_layers(20), arena_of_layers(2)); }

/// Every step of a training run must have the same bits, however often it runs.
TEST_F(Program, GivesTheSameBitsInEveryRun) {
  const value x = g.constant(random_tensor({13, 30}, 1));
  const value w = g.variable("w", {30, 7}, initialiser::glorot(30, 7));
  const auto found = gradients(reduce_mean(square(tanh(matmul(x, w)))), std::vector{w});
  test::bound_program p(std::vector{*found[0].dense}, {});
  p.run(0);
  const auto first = p.fetched(0);
  p.run(1);
  EXPECT_EQ(p.fetched(0), first);
}

} // namespace
} // namespace mailgrad
