#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace mailgrad {
namespace {

using testing::expect_refused;
using change = std::function<void(training_options&)>;

training_options summed_with(const change& c) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.policy = "sync";
  o.all_reduce = true;
  c(o);
  return o;
}

std::function<void()> checking_sums(const change& c) {
  return [c] { require_sums_can_be(summed_with(c)); };
}

TEST(AllReduceTerms, AllowSyncAndNothingThatLooksAtOneGradient) {
  require_sums_can_be(summed_with([](auto&) {}));
  require_sums_can_be(summed_with([](auto& o) {
    o.all_reduce = false;
    o.policy = "async";
    o.local_steps = 3;
  }));
  expect_refused({
      {"another policy", checking_sums([](auto& o) { o.policy = "async"; }),
       "all-reduce: expected policy sync, under which every update is a mean over all workers, found "
       "'async'"},
      {"a planned switch", checking_sums([](auto& o) { o.policy = "sync, ssp:1@5"; }),
       "found 'sync, ssp:1@5'"},
      {"switches by a rule", checking_sums([](auto& o) { o.policy = "auto"; }), "found 'auto'"},
      {"a cure", checking_sums([](auto& o) { o.cure = "dc:0.1"; }), "expected no cure"},
      {"clipping", checking_sums([](auto& o) { o.optimizer.clip_norm = 1; }), "expected no clipping"},
      {"local steps", checking_sums([](auto& o) { o.local_steps = 2; }), "expected no local steps"},
      {"samples", checking_sums([](auto& o) { o.sample_gap = 2; }), "expected no sampling of gaps"},
      {"slots", checking_sums([](auto& o) { o.slots = 3; }), "expected no slots for later workers"},
      {"a recording", checking_sums([](auto& o) { o.record = "run.rec"; }), "expected no recording"},
      {"a replay", checking_sums([](auto& o) { o.replay = std::make_shared<const recording>(); }),
       "expected no recording"},
      {"checkpoints", checking_sums([](auto& o) { o.checkpoints.folder = "kept"; }),
       "expected no checkpoints"},
      {"an actor of the user's", checking_sums([](auto& o) {
         o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", true);
       }),
       "expected Mailgrad's own parameter actor"},
      {"workers over devices", checking_sums([](auto& o) { o.workers = 1; }),
       "expected one device for each worker"},
  });
}

TEST(AllReduceTerms, AreAmongTheChecksOfARun) {
  const training_options o = summed_with([](auto& x) { x.policy = "async"; });
  expect_refused({{"the options", [&] { checked_policies(o, cure_spec(o.cure, 2)); }, "all-reduce: "}});
}

/// A worker that has paused gives nothing to the sum for which another waits, and so does not pause.
TEST(AllReduceTerms, RefuseASwitchOfTheRunningRunEvenToSync) {
  const training_options o = summed_with([](auto&) {});
  for (const char* policy : {"sync", "ssp:2"})
    expect_refused({{policy,
                     [&] {
                       require_switch(o, {{0, policy_spec("sync", 2)}}, cure_spec("none", 2), policy);
                     },
                     "all-reduce: expected no switch of policy"}});
}

TEST(AllReduceTerms, RefuseAModelWithTablesByTheirName) {
  const training_options o = summed_with([](auto&) {});
  const parameter_layout layout = testing::layout_of({{"w", {8}}, {"words", {20, 4}, true}}, 1);
  expect_refused({{"a table", [&] { require_dense_if_needed(o, cure_spec("none", 2), layout); },
                   "all-reduce: the gradient of table 'words' comes in rows"}});
}

} // namespace
} // namespace mailgrad
