#include <mailgrad/optim/optimizer_options.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OptimizerOptions, AreReadByTheNamesTheyList) {
  EXPECT_EQ(optimizer_names().size(), 12U);
  for (const std::string_view wanted : optimizer_names()) EXPECT_EQ(name(parse_optimizer(wanted)), wanted);
}

TEST(OptimizerOptions, TakeTheRatesThatPyTorchTakes) {
  EXPECT_EQ(base_learning_rate(parse_optimizer("sgd")), 1e-3);
  EXPECT_EQ(base_learning_rate(parse_optimizer("adagrad")), 1e-2);
  EXPECT_EQ(base_learning_rate(parse_optimizer("rmsprop")), 1e-2);
  EXPECT_EQ(base_learning_rate(parse_optimizer("adamw")), 1e-3);
  EXPECT_EQ(base_weight_decay(parse_optimizer("adam")), 0.0);
  EXPECT_EQ(base_weight_decay(parse_optimizer("adamw")), 1e-2);
}

TEST(OptimizerOptions, LetTheUserOverruleADefault) {
  optimizer_options o = parse_optimizer("adamw");
  o.learning_rate = 0.5;
  o.weight_decay = 0.0;
  EXPECT_EQ(base_learning_rate(o), 0.5);
  EXPECT_EQ(base_weight_decay(o), 0.0);
}

TEST(OptimizerOptions, ReadSettingsOfTheRule) {
  const optimizer_options o = parse_optimizer("adam:beta1=0.8,epsilon=1e-6");
  const auto& adam = std::get<adam_options>(o.rule);
  EXPECT_EQ(adam.beta1, 0.8);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.epsilon, 1e-6);
  EXPECT_EQ(std::get<adamw_options>(parse_optimizer("adamw:beta2=0.95").rule).beta2, 0.95);
}

TEST(OptimizerOptions, NameTheNearestRule) {
  EXPECT_THAT([] { parse_optimizer("adma"); },
              ThrowsMessage<std::invalid_argument>("optimizer 'adma' is unknown; did you mean 'adam'?"));
  EXPECT_THAT([] { parse_optimizer("momentun:momentum=0.5"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'momentum'")));
  EXPECT_THROW(parse_optimizer(""), std::invalid_argument);
}

TEST(OptimizerOptions, AreCheckedWhoeverMadeThem) {
  const auto refuse = [](const optimizer_options& o, const char* option) {
    EXPECT_THAT([&] { require_valid(o); }, ThrowsMessage<std::invalid_argument>(HasSubstr(option)));
  };
  EXPECT_NO_THROW(require_valid(optimizer_options{}));
  refuse({.learning_rate = -1}, "learning rate");
  refuse({.learning_rate = 1e39}, "that a float32 can hold");
  refuse({.learning_rate = std::numeric_limits<double>::quiet_NaN()}, "learning rate");
  refuse({.l2 = -1}, "l2");
  refuse({.weight_decay = -1}, "weight decay");
  refuse({.clip_norm = -1}, "clip norm");
  refuse({.rule = momentum_options{.momentum = 1}}, "momentum");
  refuse({.rule = adam_options{.beta2 = 1}}, "beta2");
  refuse({.schedule = {.shape = step_schedule{.every = 0}}}, "every");
  refuse({.schedule = {.shape = cosine_schedule{.total = 10}, .warmup = 10}}, "total");
}

} // namespace
} // namespace mailgrad
