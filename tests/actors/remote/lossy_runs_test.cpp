#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/engine/wire/wire_format.hpp>

#include <gmock/gmock.h>

// Runs whose gradients travel in a lossy format: what a message lacks stays at the worker and comes later.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;

struct LossyRuns : ::testing::TestWithParam<const char*> {};

/// The weights differ from those of float32, and the loss hardly.
TEST_P(LossyRuns, LearnAsWellAsExactOnes) {
  kind_of_run kind = with("", "sync", 2, [](training_options& o) { o.epochs = 20; });
  const training_report exact = trained_elsewhere(kind);
  const training_report lossy = trained_elsewhere(kind, 0, GetParam());
  ASSERT_EQ(lossy.ended, "completed") << lossy.why;
  EXPECT_TRUE(lossy.ledger.balances());
  EXPECT_EQ(lossy.wire, to_string(parse_wire_format(GetParam())));
  EXPECT_NE(lossy.parameters_sha256, exact.parameters_sha256) << "nothing was lost";
  ASSERT_TRUE(lossy.test_loss && exact.test_loss);
  EXPECT_NEAR(*lossy.test_loss, *exact.test_loss, 0.05 * *exact.test_loss + 0.01);
}

TEST_P(LossyRuns, GiveTheSameBitsEachTime) {
  const kind_of_run kind = with("", "sync", 2);
  EXPECT_EQ(trained_elsewhere(kind, 0, GetParam()).parameters_sha256,
            trained_elsewhere(kind, 0, GetParam()).parameters_sha256);
}

INSTANTIATE_TEST_SUITE_P(Formats, LossyRuns,
                         ::testing::Values("float16", "bfloat16", "int8", "top-k:0.25", "1-bit:block=16"),
                         [](const auto& format) { return mailgrad::testing::test_name(format.param); });

struct LossyKinds : ::testing::TestWithParam<kind_of_run> {};

TEST_P(LossyKinds, EndInOrderWithEachFormat) {
  for (const char* format : {"bfloat16", "int8", "top-k:0.1", "1-bit"}) {
    const training_report r = trained_elsewhere(GetParam(), 1, format);
    EXPECT_EQ(r.ended, "completed") << format << ": " << r.why;
    EXPECT_TRUE(r.ledger.balances()) << format;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossyKinds, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(LossyRun, AreNotRecorded) {
  serve_options serve;
  serve.wire = "int8";
  training_options o = options_for("sync", 1);
  o.record = "never-written";
  EXPECT_THAT([&] { training(small_model(), small_data(), o, serve); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("record: with wire format int8")));
}

TEST(LossyRun, HaveAFormatThatThereIs) {
  serve_options serve;
  serve.wire = "int7";
  EXPECT_THAT([&] { training(small_model(), small_data(), options_for("sync", 1), serve); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("int7")));
}

} // namespace
} // namespace mailgrad::remote
