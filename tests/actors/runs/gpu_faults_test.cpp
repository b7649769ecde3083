#include <mailgrad/tests/actors/runs/gpu_faults_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Whole runs on the simulated GPU in which the n-th allocation, kernel or call fails. Whatever n is, a run
// ends once and in order, and tells what failed.

namespace mailgrad {
namespace {

using simulated_gpu::counters;
using simulated_gpu::faults;
using testing::GpuFaults;
using ::testing::HasSubstr;
using testing::name_of_fault;
using ::testing::Not;
using testing::remains;

/// MAILGRAD_EVERY_FAULT lets each n be tried, and not some of them.
std::uint64_t tries_of_each() {
  return std::getenv("MAILGRAD_EVERY_FAULT") ? std::uint64_t{1} << 20 : 12; // NOLINT(concurrency-mt-unsafe)
}

bool is_one_line(const std::string& words) { return !words.empty() && words.find('\n') == std::string::npos; }

TEST_P(GpuFaults, EndARunOnceAndInOrderWhereverTheyCome) {
  const remains whole = run({}, 1);
  ASSERT_TRUE(whole.outcome);
  ASSERT_EQ(whole.outcome->how, run_outcome::ending::completed) << whole.outcome->why;
  const std::uint64_t all = whole.counted.*kind().counted;
  std::uint64_t failed = 0, refused = 0;
  const std::uint64_t each = std::max<std::uint64_t>(1, all / tries_of_each());
  for (std::uint64_t n = 1; n <= all; n += each) {
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(all));
    faults fail;
    fail.*kind().at = n;
    const remains left = run(fail, 1);
    if (!left.refused.empty()) {
      ++refused;
      EXPECT_TRUE(is_one_line(left.refused));
      EXPECT_THAT(left.refused, HasSubstr(kind().words));
      if (std::string_view(kind().words) == "out of memory") {
        EXPECT_THAT(left.refused, HasSubstr(", for ")) << "what for";
      }
      continue;
    }
    ASSERT_TRUE(left.outcome);
    if (left.outcome->how == run_outcome::ending::completed) {
      EXPECT_EQ(std::ranges::count(left.outcome->lost, true), 0)
          << "a worker has failed, and others did its work";
      expect_all_trained(left, whole);
      if (HasFailure()) return;
      continue;
    }
    EXPECT_EQ(left.outcome->how, run_outcome::ending::failed);
    EXPECT_TRUE(is_one_line(left.outcome->why)) << left.outcome->why;
    EXPECT_THAT(left.outcome->why, HasSubstr(kind().words));
    if (what().resumes) {
      EXPECT_THAT(left.outcome->why, Not(HasSubstr("at its step 0:"))) << "it has gone on from a later one";
    }
    if (std::string_view(kind().words) == "out of memory") {
      if (kind().counted != &counters::driver_objects) { // the driver does not say
        EXPECT_THAT(left.outcome->why, HasSubstr(" asked for")) << "how much";
      }
      EXPECT_THAT(left.outcome->why, HasSubstr(", for ")) << "what for";
      const bool is_begun = left.outcome->why.find(" is lost: ") == std::string::npos;
      EXPECT_TRUE(is_begun || left.report->steps == steps_before()) << left.outcome->why;
      EXPECT_EQ(left.weights.empty(), !is_begun) << "they are whole, and yet lost: " << left.outcome->why;
      expect_weights_of_versions(left);
    }
    if (++failed % 4 == 0) expect_resumable(left);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(all == 0 || failed + refused > 0) << "none has struck";
}

INSTANTIATE_TEST_SUITE_P(Runs, GpuFaults,
                         ::testing::Combine(::testing::ValuesIn(testing::fault_cases),
                                            ::testing::ValuesIn(testing::fault_kinds)),
                         name_of_fault);

} // namespace
} // namespace mailgrad
