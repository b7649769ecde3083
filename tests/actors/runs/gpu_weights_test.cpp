#include <mailgrad/demos/custom_cure.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Whole runs whose weights lie on a GPU, or some of them, on threads: the simulated GPU, or a real one.

namespace mailgrad {
namespace {

using testing::all_on_gpu;
using ::testing::AllOf;
using testing::gpu_options;
using testing::GpuRuns;
using ::testing::HasSubstr;
using testing::options_for;
using testing::small_data;
using ::testing::ThrowsMessage;
using testing::trained;
using testing::weights_of;

TEST_F(GpuRuns, WithWeightsThereComeToTheWeightsOfTheProcessorsInSync) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"})
    for (const std::uint32_t shards : {1U, 3U}) {
      training_options on_gpu = all_on_gpu("sync", 2), here = options_for("sync", 2);
      for (training_options* o : {&on_gpu, &here}) {
        o->optimizer = parse_optimizer(rule);
        o->optimizer.clip_norm = 0.5;
        o->optimizer.weight_decay = 0.01;
        o->shards = shards;
      }
      const std::vector<float> found = weights_of(on_gpu), expected = weights_of(here);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << rule << i;
    }
}

/// Workers on streams of the GPU and on a core, and shards in turn at these places.
training_options mixed(const std::string& policy, std::vector<device> places) {
  training_options o = gpu_options(policy, 3);
  o.devices[1] = {device_kind::cpu, 0};
  o.parameters = std::move(places);
  o.shards = 3;
  return o;
}

const std::vector<std::vector<device>>& mixes() {
  static const std::vector<std::vector<device>> all{
      {{device_kind::cuda, 0}}, {{}, {device_kind::cuda, 0}}, {{device_kind::cuda, 0}, {}, {}}};
  return all;
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereComeToTheWeightsOfTheProcessorsInSync) {
  for (const std::vector<device>& places : mixes()) {
    training_options there = mixed("sync", places), here = options_for("sync", 3);
    for (training_options* o : {&there, &here}) {
      o->optimizer = parse_optimizer("adam");
      o->optimizer.clip_norm = 0.5;
      o->shards = 3;
    }
    const std::vector<float> found = weights_of(there), expected = weights_of(here);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
  }
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereBalanceTheLedgerUnderEveryPolicyAndCure) {
  const std::pair<const char*, const char*> all[]{
      {"async", "none"},          {"ssp:2", "none"},      {"k-batch-async:4", "none"},
      {"malenia:4", "none"},      {"ringleader", "none"}, {"ringleader, sync@20, ringleader@30", "none"},
      {"async", "dc-asgd-a"},     {"async", "dana-dc"},   {"async", "gap-aware"},
      {"async, sync@20", "none"}, {"async", "easgd"}};
  std::size_t mix = 0;
  for (const auto& [policy, cure] : all) {
    SCOPED_TRACE(std::string(policy) + ' ' + cure);
    training_options o = mixed(policy, mixes()[mix++ % mixes().size()]);
    o.cure = cure;
    o.optimizer = parse_optimizer("sgd");
    o.optimizer.learning_rate = 0.05;
    if (o.cure == "easgd") o.local_steps = 2;
    o.sample_gap = o.cure == "none" ? 3 : 0;
    o.evaluate_every = {.steps = 10};
    const training_report r = trained(o, small_data(200));
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_EQ(r.samples, 800U);
    // A worker on the host may be fast enough to take most batches. Policies that wait for all make few
    // updates then.
    const bool awaits_all =
        o.policy.find("malenia") != o.policy.npos || o.policy.find("ringleader") != o.policy.npos;
    if (!awaits_all) {
      EXPECT_GT(r.test_accuracy, o.cure == "easgd" ? 0.5 : 0.8);
    }
  }
}

TEST_F(GpuRuns, WithWeightsThereAndElsewhereAreRepeatedAndGoOn) {
  const scratch_folder folder;
  training_options o = mixed("async", mixes()[1]);
  o.record = (folder.path() / "run.rec").string();
  const std::vector<float> was = weights_of(o);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  EXPECT_EQ(weights_of(o), was);
  o.parameters = {{device_kind::cuda, 0}};
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of shards")));
  o = mixed("sync", mixes()[1]);
  const std::vector<float> at_once = weights_of(o);
  o.epochs = 2;
  o.checkpoints = {.folder = (folder.path() / "ck").string(), .every_steps = 5};
  weights_of(o);
  o = mixed("sync", mixes()[1]);
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path() / "ck").what);
  EXPECT_EQ(weights_of(o), at_once);
}

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
/// Of one worker no update is lost, and each step reads the last one.
TEST_F(GpuRuns, WithWeightsThereWriteThemUnderHogwildAsAShardWould) {
  for (const char* rule : {"sgd", "adam"})
    for (const std::uint32_t shards : {1U, 3U}) {
      training_options racing = all_on_gpu("hogwild", 1), ordered = all_on_gpu("async", 1);
      for (training_options* o : {&racing, &ordered}) {
        o->optimizer = parse_optimizer(rule);
        o->shards = shards;
      }
      EXPECT_EQ(weights_of(racing), weights_of(ordered)) << rule << ' ' << shards;
    }
}

TEST_F(GpuRuns, WithWeightsThereTrainUnderHogwild) {
  for (const char* policy : {"hogwild", "async, hogwild@10, sync@30"}) {
    training_options o = all_on_gpu(policy, 3);
    o.shards = 2;
    o.evaluate_every = {.steps = 10};
    const training_report r = trained(o, small_data(200));
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_EQ(r.samples, 800U);
    EXPECT_GT(r.test_accuracy, 0.8);
  }
}
#endif

TEST_F(GpuRuns, WithWeightsThereRunAheadToTheSameBits) {
  for (const auto& [policy, streams] : {std::pair("async", 1U), std::pair("sync", 3U)}) {
    training_options o = all_on_gpu(policy, streams);
    o.shards = 2;
    const std::vector<float> ahead = weights_of(o);
    o.run_ahead = 0;
    EXPECT_EQ(weights_of(o), ahead) << policy;
  }
  training_options too_far = all_on_gpu("async", 1);
  too_far.run_ahead = 2;
  EXPECT_THAT([&] { trained(too_far); }, ThrowsMessage<std::invalid_argument>(HasSubstr("--run-ahead: 2")));
}

TEST_F(GpuRuns, WithWeightsThereFindNoGapWhereOneWorkerIsAlone) {
  training_options o = all_on_gpu("async", 1);
  o.shards = 2;
  o.sample_gap = 5;
  const training_report r = trained(o);
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.gradient_cosine.count(), r.steps / 5);
  EXPECT_EQ(r.gradient_cosine.least(), 1.0);
  EXPECT_EQ(r.gradient_cosine.greatest(), 1.0);
  EXPECT_EQ(r.weight_gap.count(), 2 * (r.steps / 5)) << "on each of two shards";
  EXPECT_EQ(r.weight_gap.greatest(), 0.0);
}

/// A checkpoint may fall between a gradient and the loss of its step.
TEST_F(GpuRuns, WithWeightsThereReportAfterAResumeWhatTheyWouldHaveReported) {
  const auto loss_of = [](const training_options& o) {
    const training_report r = trained(o);
    EXPECT_EQ(r.ended, "completed") << r.why;
    return std::pair(r.final_loss, r.steps);
  };
  const scratch_folder folder;
  training_options o = all_on_gpu("async", 1);
  const auto at_once = loss_of(o);
  const std::uint64_t epochs = o.epochs;
  o.epochs = 2;
  o.checkpoints = {.folder = folder.path().string(), .every_steps = 1, .keep = 1};
  loss_of(o);
  o.epochs = epochs;
  o.checkpoints = {};
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  EXPECT_EQ(loss_of(o), at_once);
}

/// The run goes on there, and on processors.
TEST_F(GpuRuns, WithWeightsThereGoOnFromACheckpoint) {
  struct kept_run {
    const char* policy;
    const char* cure;
    std::uint64_t local_steps = 0;
  };
  for (const auto& [policy, cure, local_steps] :
       {kept_run{"async", "none"}, kept_run{"async", "dc-asgd-a"}, kept_run{"sync", "none"},
        kept_run{"k-batch-async:3", "none"}, kept_run{"async", "none", 3}, kept_run{"sync", "easgd", 2},
        kept_run{"hogwild", "none"}}) {
    const scratch_folder folder;
    const bool alone = std::string_view(policy) != "sync";
    training_options o = all_on_gpu(policy, alone ? 1 : 2);
    o.cure = cure;
    const bool keeps_state = o.cure == "none" && o.policy != "hogwild"; // in the other place, too
    o.optimizer = parse_optimizer(keeps_state ? "adam" : "sgd");
    o.local_steps = local_steps;
    const training_options whole = o;
    const std::vector<float> at_once = weights_of(o);
    o.epochs = 2;
    o.checkpoints = {.folder = folder.path().string(), .every_steps = 5};
    weights_of(o);
    const auto last = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
    o = whole;
    o.resume = last;
    EXPECT_EQ(weights_of(o), at_once) << policy << ' ' << cure;
    o.parameters.clear();
    for (std::uint32_t i = 0; i < o.devices.size(); ++i) o.devices[i] = {device_kind::cpu, i};
    const std::vector<float> on_host = weights_of(o);
    for (std::size_t i = 0; i < at_once.size(); ++i)
      ASSERT_NEAR(on_host[i], at_once[i], 1e-4) << policy << ' ' << cure << " at " << i;
  }
}

TEST_F(GpuRuns, WithWeightsThereAreReplayedThereAlone) {
  const scratch_folder folder;
  training_options o = all_on_gpu("async", 3);
  o.record = (folder.path() / "run.rec").string();
  const std::vector<float> was = weights_of(o);
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  EXPECT_EQ(weights_of(o), was);
  o.parameters.clear();
  EXPECT_THAT([&] { weights_of(o); }, ThrowsMessage<recording_error>(HasSubstr("arithmetic of shards")));
}

TEST_F(GpuRuns, WithWeightsThereAreRefusedForWhatStaysOnTheHost) {
  const auto refused = [](const char* why, const auto& change) {
    training_options o = all_on_gpu("async", 2);
    change(o);
    EXPECT_THAT([&] { trained(o); },
                ThrowsMessage<std::exception>(AllOf(HasSubstr("parameters: "), HasSubstr(why))));
  };
  refused("say host", [](auto& o) { o.parameters[0] = {device_kind::cpu, 1}; });
  refused("--parameters: cuda:0,host: 2 places for 1 shard; ", [](auto& o) { o.parameters.push_back({}); });
  refused("stream of its own", [](auto& o) { o.parameters[0].stream = 1; });
  refused("parameter actor 'mine'",
          [](auto& o) { o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false); });
  refused("under hogwild all weights and all workers share one GPU, and cpu:0", [](auto& o) {
    o.policy = "async, hogwild@10";
    o.devices[1] = {device_kind::cpu, 0};
  });
  refused("all-reduce adds gradients up on the host", [](auto& o) {
    o.policy = "sync";
    o.all_reduce = true;
  });
  refused("cure 'fading", [](auto& o) { o.cure = custom_cure<fading>("0.5"); });
  refused("cure 'heloco' looks at whole variables on the host", [](auto& o) {
    o.local_steps = 2;
    o.outer = parse_optimizer("nesterov");
    o.cure = "heloco";
  });
  refused("rule 'own-momentum'",
          [](auto& o) { o.optimizer.rule = make_custom_rule(rule_table<testing::own_momentum>); });
  training_options elsewhere = all_on_gpu("async", 2);
  elsewhere.parameters[0].index = 7;
  EXPECT_THAT([&] { trained(elsewhere); }, ThrowsMessage<device_error>(HasSubstr("cuda:7 is not available")));
}

TEST_F(GpuRuns, WithTablesThereAreRefusedForWhatReadsTheirRowsOnTheHost) {
  const auto refused = [](const char* why, const auto& change) {
    training_options o = all_on_gpu("async", 2);
    change(o);
    EXPECT_THAT([&] { train(*built_in_model("softmax"), testing::sparse_data(), o); },
                ThrowsMessage<std::exception>(AllOf(HasSubstr("table 'dense1/weights'"), HasSubstr(why))));
  };
  refused("share one GPU, and cpu:0 is elsewhere", [](auto& o) { o.devices[1] = {device_kind::cpu, 0}; });
  refused("share one GPU, and cpu:0 is elsewhere", [](auto& o) {
    o.parameters.push_back({});
    o.shards = 2;
  });
  refused("clipping", [](auto& o) { o.optimizer.clip_norm = 1; });
  refused("policy 'ringleader'", [](auto& o) { o.policy = "async, ringleader@9"; });
  refused("sampling of gaps", [](auto& o) { o.sample_gap = 2; });
  refused("--local-steps", [](auto& o) { o.local_steps = 2; });
}

} // namespace
} // namespace mailgrad
