#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/lab/links/worker_link.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/lab/lab_runs.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

namespace mailgrad::lab {
namespace {

using namespace mailgrad::testing;
using ::testing::ElementsAre;

// Runs in virtual time whose gradients and weights take time between a worker and the shards.

training_report train_linked(const lab_case& c, const training_options& o, const link_formulas& links,
                             const wire_terms& wire = {}) {
  virtual_run_options how{c.workers};
  how.links = links;
  how.wire = wire;
  return run_in_lab(o, how);
}

training_report run_linked(const lab_case& c, const link_formulas& links, const wire_terms& wire = {}) {
  return train_linked(c, lab_options(c), links, wire);
}

double size_of_weights() {
  const virtual_run run(small_model(), small_data(), lab_options({1, "constant:1", "async", 1}), {1});
  return static_cast<double>(run.layout().size());
}

/// Its step, and a message each way.
TEST(WorkerLink, AddsItsLatencyTwiceToAnUpdate) {
  const training_report r = run_linked({1, "constant:1", "async", 100}, {"0.25", ""});
  // A join and its answer come before the first step, and nothing waits for the last answer.
  EXPECT_DOUBLE_EQ(r.wall_seconds, 0.5 + 100 * 1.5 - 0.25 + 0.25);
  EXPECT_EQ(r.delays->latency, "0.25");
  EXPECT_DOUBLE_EQ(r.times.wire.mean_seconds(), 0.5);
  EXPECT_EQ(r.times.wire.count(), 99U) << "a gradient tells of the one before";
  EXPECT_DOUBLE_EQ(r.times.mailbox.mean_seconds(), 0);
}

TEST(WorkerLink, TakesTheBytesOfGradientsAndWeights) {
  const lab_case c{1, "constant:1", "async", 200};
  const double bytes = 12 + 4 * size_of_weights();
  const training_report r = run_linked(c, {"", std::to_string(bytes)});
  EXPECT_NEAR(seconds_per_update(r), 3, 0.02);
  // 12 bytes and an eighth of the numbers, and 8 bytes of means
  const wire_format bits = parse_wire_format("1-bit");
  const auto encoded = static_cast<double>(encoded_bytes(bits, static_cast<std::size_t>(size_of_weights())));
  const training_report small = run_linked(c, {"", std::to_string(bytes)}, {bits});
  EXPECT_NEAR(seconds_per_update(small), 2 + encoded / bytes, 0.02);
  EXPECT_EQ(small.wire, "1-bit:block=512");
}

/// No message takes longer than a step may, so the clock counts on.
TEST(WorkerLink, HasSlowestTimesThatTheClockCanCount) {
  const training_report r = run_linked({1, "constant:1", "async", 3}, {"1e6", "1"});
  EXPECT_EQ(r.ended, "completed");
  EXPECT_NEAR(r.wall_seconds, 3 * (2 * (1e6 + 12 + 4 * size_of_weights()) + 1) + 1e6, 1e4 + 1e6);
}

/// A worker under a barrier has the pace of the one whose link is slowest.
TEST(WorkerLink, HasTheTimesOfItsWorker) {
  EXPECT_NEAR(seconds_per_update(run_linked({3, "constant:1", "sync", 300}, {"i/10", ""})), 1.6, 0.02);
}

/// However long messages take, a worker's gradients are M - 1 versions old in the mean.
TEST(WorkerLink, LeavesTheMeanStalenessAsItIs) {
  EXPECT_NEAR(run_linked({4, "exp", "async", 20'000}, {"0.1*i", ""}).staleness.mean(), 3, 0.01);
}

TEST(WorkerLink, ThatTakesNoTimeChangesNoBit) {
  for (const char* policy : {"async", "sync", "ssp:1"}) {
    const lab_case c{3, "exp", policy, 120};
    EXPECT_EQ(train_linked(c, lively_options(c), {"0", ""}).parameters_sha256,
              run_lively(c).parameters_sha256);
  }
}

TEST(WorkerLink, BalancesTheLedgerUnderEveryPolicyAndFormat) {
  for (const char* policy :
       {"async", "sync", "ssp:1", "dssp:1,3", "backup:1", "k-async:2", "k-batch-async:3", "k-batch-sync:3",
        "rennala:3", "ringmaster:2", "malenia:5", "ringleader", "async, sync@100, ssp:1@200"})
    for (const char* format : {"float32", "top-k:0.1", "1-bit"}) {
      const lab_case c{4, "exp:mean=i", policy, 300};
      training_options o = lively_options(c);
      o.shards = 2;
      const link_formulas links{"0.2*i", "1e3"};
      const wire_terms wire{parse_wire_format(format)};
      const training_report r = train_linked(c, o, links, wire);
      EXPECT_EQ(r.ended, "completed") << policy << ": " << r.why;
      EXPECT_TRUE(r.ledger.balances()) << policy << ": " << to_string(r.ledger);
      EXPECT_EQ(r.steps, 300U) << policy;
      EXPECT_EQ(r.parameters_sha256, train_linked(c, o, links, wire).parameters_sha256) << policy;
    }
}

TEST(WorkerLink, CarriesDifferencesOfLocalStepsAndClippedGradients) {
  const lab_case c{2, "exp", "async", 60};
  training_options o = lively_options(c);
  o.local_steps = 3;
  EXPECT_EQ(train_linked(c, o, {"0.1", ""}, {parse_wire_format("int8")}).ended, "completed");
  training_options clipped = lively_options(c);
  clipped.optimizer.clip_norm = 1e-3; // every gradient is scaled
  const training_report exact = train_linked(c, clipped, {"0.1", ""});
  const training_report rounded = train_linked(c, clipped, {"0.1", ""}, {parse_wire_format("float16")});
  EXPECT_NE(exact.parameters_sha256, rounded.parameters_sha256);
  EXPECT_NEAR(*exact.test_loss, *rounded.test_loss, 1e-4) << "the factor counts once";
}

/// All gradients of the slower worker are discarded at first. They come back to it, and with its next one.
TEST(WorkerLink, BringsDiscardedGradientsBackToTheirWorker) {
  const lab_case c{2, "list:1,1.4", "backup:1, async@40", 44};
  const auto loss = [&](const char* format, bool feedback) {
    const training_report r = train_linked(c, lively_options(c), {}, {parse_wire_format(format), feedback});
    EXPECT_GT(r.ledger.discarded_in_all(), 10U);
    return r.test_loss.value_or(0);
  };
  const double exact = loss("float32", true); // takes nothing back
  EXPECT_NEAR(loss("float16", false), exact, 1e-3);
  EXPECT_GT(std::abs(loss("float16", true) - exact), 0.01);
}

TEST(WorkerLink, IsRefusedInOneLineIfItsTimesAreNone) {
  const auto refused = [](const link_formulas& links, const char* policy, const char* words) {
    expect_refused({policy, [&] { run_linked({3, "constant:1", policy, 4}, links); }, words});
  };
  refused({"-1", ""}, "async", "latency '-1'");
  refused({"1/(i-1)", ""}, "async", "for worker 0");
  refused({"j", ""}, "async", "latency 'j'");
  refused({"", "0"}, "async", "bandwidth '0': expected 1 to 1e+15 bytes a second, found 0 for worker 0");
  refused({"1", ""}, "async, hogwild@2", "hogwild");
}

constexpr step_number none{};

/// What arrives of a gradient of sixteen numbers, of which top-k sends one. The first four are not 0.
class GradientWire : public ::testing::Test {
protected:
  std::vector<float> arrived(gradient_wire& wire, std::vector<float> values, std::uint64_t step,
                             float scale = 1) {
    push_gradient x = push_of(0, step, 0, of(std::move(values)), scale);
    bytes_ = wire.carry(0, x);
    EXPECT_EQ(std::bit_cast<float>(x.header.scale_bits), 1.0F);
    const auto numbers = x.payload.values->dense.on_host<float>();
    return {numbers.begin(), numbers.begin() + 4};
  }
  static std::shared_ptr<gradient> of(std::vector<float> values) {
    values.resize(16);
    return dense_gradient(values);
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<const parameter_layout>(layout_of({{"w", {16}}}, 1));
  std::size_t bytes_ = 0;
};

TEST_F(GradientWire, KeepsWhatAMessageLacksForTheNextOne) {
  gradient_wire wire({parse_wire_format("top-k:0.0625")}, layout_);
  EXPECT_THAT(arrived(wire, {1, 2, -4, 3}, 1), ElementsAre(0, 0, -4, 0));
  EXPECT_EQ(bytes_, 12 + 8U);
  wire.answered(0, none);
  EXPECT_THAT(arrived(wire, {1, 1, 1, 1}, 2), ElementsAre(0, 0, 0, 4));
}

TEST_F(GradientWire, TakesADiscardedMessageBack) {
  gradient_wire wire({parse_wire_format("top-k:0.0625")}, layout_);
  arrived(wire, {1, 2, -4, 3}, 1);
  wire.answered(0, {1});
  EXPECT_THAT(arrived(wire, {0, 0, 0, 0}, 2), ElementsAre(0, 0, -4, 0));
}

TEST_F(GradientWire, LosesWhatAMessageLacksWithoutFeedback) {
  gradient_wire wire({parse_wire_format("top-k:0.0625"), false}, layout_);
  arrived(wire, {1, 2, -4, 3}, 1);
  wire.answered(0, {1});
  EXPECT_THAT(arrived(wire, {1, 0, 0, 0}, 2), ElementsAre(1, 0, 0, 0));
}

TEST_F(GradientWire, MultipliesTheFactorOfClippingIn) {
  gradient_wire wire({parse_wire_format("float16")}, layout_);
  EXPECT_THAT(arrived(wire, {1, 2, -4, 3}, 1, 0.5), ElementsAre(0.5, 1, -2, 1.5));
}

TEST_F(GradientWire, LetsAnExactGradientThroughAsItIs) {
  gradient_wire wire({}, layout_);
  push_gradient x = push_of(0, 1, 0, of({1, 2, 3, 4}));
  const gradient* const before = x.payload.values.get();
  EXPECT_EQ(wire.carry(0, x), 12 + 4 * 16U);
  EXPECT_EQ(x.payload.values.get(), before);
  EXPECT_EQ(wire.weight_bytes(0), 12 + 4 * 16U);
}

/// Each shard gets its own rows, as a run over processes has it.
TEST(GradientWireOfTables, CarriesTheRowsOfAShard) {
  const auto layout =
      std::make_shared<const parameter_layout>(layout_of({{"dense", {2}}, {"table", {4, 2}, true}}, 1));
  gradient_wire wire({parse_wire_format("bfloat16")}, layout);
  const auto g = dense_gradient(std::vector<float>(layout->dense_size(), 1));
  add_rows(*g, 1, 2, {3, 0}, {1, 2, 3, 4});
  push_gradient x = push_of(0, 1, 0, g);
  EXPECT_EQ(wire.carry(0, x) > 12 + 2 * layout->dense_size(), true);
  ASSERT_EQ(x.payload.values->sparse.size(), 1U);
  EXPECT_THAT(x.payload.values->sparse[0].rows, ElementsAre(3, 0));
  EXPECT_THAT(x.payload.values->sparse[0].values, ElementsAre(1, 2, 3, 4));
}

} // namespace
} // namespace mailgrad::lab
