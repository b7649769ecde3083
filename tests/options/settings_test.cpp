#include <mailgrad/options/settings.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Settings, HasANameAndNothingElse) {
  const settings s("optimizer", "adam");
  EXPECT_EQ(s.name(), "adam");
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(Settings, SetsOnlyWhatTheTextNames) {
  settings s("optimizer", "adam:beta1=0.5,steps=12");
  double beta1 = 0.9;
  double beta2 = 0.999;
  std::uint64_t steps = 0;
  s.take("beta1", beta1, 0, 1);
  s.take("beta2", beta2, 0, 1);
  s.take("steps", steps);
  EXPECT_EQ(beta1, 0.5);
  EXPECT_EQ(beta2, 0.999);
  EXPECT_EQ(steps, 12U);
  EXPECT_NO_THROW(s.require_nothing_left());
}

TEST(Settings, NamesTheNearestKeyOfThoseItKnows) {
  settings s("optimizer", "adam:btea1=0.5");
  double beta = 0;
  s.take("epsilon", beta, 0, 1);
  s.take("beta1", beta, 0, 1);
  EXPECT_THAT([&] { s.require_nothing_left(); },
              ThrowsMessage<std::invalid_argument>(
                  "optimizer 'adam': there is no setting 'btea1'; did you mean 'beta1'?"));
}

TEST(Settings, SaysThatANameTakesNoSettings) {
  const settings s("optimizer", "sgd:speed=1");
  EXPECT_THAT([&] { s.require_nothing_left(); },
              ThrowsMessage<std::invalid_argument>("optimizer 'sgd': there is no setting 'speed'"));
}

TEST(Settings, RefusesWhatIsNoSettingAndWhatComesTwice) {
  EXPECT_THAT([] { settings("optimizer", "adam:0.5"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("write key=value")));
  EXPECT_THAT([] { settings("optimizer", "adam:beta1=0.5,beta1=0.6"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'beta1' comes twice")));
}

TEST(Settings, RefusesANumberOutOfItsRange) {
  for (const char* text :
       {"m:beta=1", "m:beta=-0.1", "m:beta=nan", "m:beta=", "m:beta=0.5x", "m:beta=1e999"}) {
    settings s("optimizer", text);
    double beta = 0;
    EXPECT_THAT([&] { s.take("beta", beta, 0, 1); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("beta must be at least 0 and less than 1")))
        << text;
  }
  for (const char* text : {"m:steps=-1", "m:steps=1.5", "m:steps=99999999999999999999"}) {
    settings s("optimizer", text);
    std::uint64_t steps = 0;
    EXPECT_THAT([&] { s.take("steps", steps); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("steps must be a whole number")))
        << text;
  }
}

} // namespace
} // namespace mailgrad
