#include <mailgrad/cli/output/report_words.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Summary, SaysHowCardsWorkedAndWhyChainsHaveNoKernels) {
  training_report r;
  EXPECT_THAT(in_words(r), Not(HasSubstr("cards ")));
  r.cards = card_figures{590, 10, 3, ""};
  EXPECT_THAT(in_words(r), HasSubstr("\ncards         590 steps as graphs, 10 by launches; 3 chains have "
                                     "kernels of their own\n"));
  r.cards->why_interpreted = "none: NVRTC 12.4 is not for CUDA 13";
  EXPECT_THAT(in_words(r), HasSubstr("kernels of their own, others none: NVRTC 12.4 is not for CUDA 13\n"));
}

} // namespace
} // namespace mailgrad
