#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/schedule.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(FormatFact, HasNumbersAsShortAsTheyCanBe) {
  EXPECT_EQ(format_fact("schedule", to_string(parse_schedule("step:every=500,factor=0.1,warmup=3"))),
            "step:every=500,factor=0.1,warmup=3");
  EXPECT_EQ(format_fact("learning rate", "0.10000000000000001"), "0.1");
  EXPECT_EQ(format_fact("weight decay", "1e-08"), "1e-8");
  EXPECT_EQ(format_fact("clip norm", "1.0000000000000001e-10"), "1e-10");
  EXPECT_EQ(format_fact("policy", "async, ssp:1@2000"), "async, ssp:1@2000");
  EXPECT_EQ(format_fact("seed", "18446744073709551615"), "18446744073709551615");
}

TEST(FormatFact, HasTheSettingsOfARuleByTheirNames) {
  const auto typed = [](const char* value) { return format_fact("optimizer", value); };
  EXPECT_EQ(typed("sgd"), "sgd");
  for (const auto& [value, as_typed] :
       {std::pair{"momentum 0.90000000000000002", "momentum:momentum=0.9"},
        {"adam 0.90000000000000002 0.999 1e-08", "adam:beta1=0.9,beta2=0.999,epsilon=1e-8"},
        {"delayed-nesterov 0.90000000000000002 5 0.5", "delayed-nesterov:momentum=0.9,period=5,early=0.5"},
        {"shampoo 9.9999999999999995e-07 20 1024", "shampoo:epsilon=1e-6,every=20,largest=1024"},
        {"muon 0.94999999999999996 plain 'head bias' 0.001 0.90000000000000002 0.999 1e-08",
         "muon:momentum=0.95,nesterov=no,adamw=head "
         "bias,adamw_rate=0.001,beta1=0.9,beta2=0.999,epsilon=1e-8"}}) {
    EXPECT_EQ(typed(value), as_typed);
    EXPECT_NO_THROW(parse_optimizer(as_typed)) << as_typed;
  }
  EXPECT_EQ(typed("./libmine.so 0.10000000000000001 2"), "./libmine.so 0.1 2");
}

} // namespace
} // namespace mailgrad
