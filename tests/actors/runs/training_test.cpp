#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad::testing {
namespace {

using messaging::actor_home;
using ::testing::AllOf, ::testing::FloatNear, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Pointwise,
    ::testing::ThrowsMessage;
using namespace std::chrono_literals;

/// The weights that a loop without actors makes of the same options: the reference.
std::string trained_in_sequence(const training_options& o, const std::shared_ptr<const data_split>& data) {
  const model_request request = request_for(*data, o.batch);
  const auto layout = std::make_shared<parameter_layout>(lay_out(small_model(), request, 1));
  std::vector<float> weights = first_values(*layout, o.seed);
  replica model(small_model(), request, layout);
  model.use_weights(0, weights.data());
  const auto rule = make_optimizer(o.optimizer, layout->size());
  const auto g = model.make_gradient();
  dealer deals({data->train.size(), o.batch, o.epochs, o.steps, o.seed, deal_mode::on_demand, 1});
  std::uint64_t step = 0;
  while (const auto d = deals.next(0)) {
    auto b = std::make_shared<batch>();
    shape_batch(data->train, d->samples.size(), request.nonzeros, *b);
    fill_batch(data->train, d->samples, *b);
    b->number = d->number;
    model.begin_step(b, g);
    const scaled_gradient part{g->dense.on_host<float>().data(), 1};
    const std::span<float> dense = std::span(weights).first(layout->dense_size());
    ++step;
    rule->update(host_stream{}, {dense, dense, {&part, 1}, step, 0});
    for (const gradient_rows& rows : g->sparse) {
      const placed_variable& table = layout->variables()[rows.variable];
      rule->update_rows(host_stream{},
                        {std::span(weights).subspan(table.offset, table.dims.size()), rows.width, rows.rows,
                         rows.values, 1.0F, step, table.offset, 0, static_cast<std::int32_t>(table.dims[0])});
    }
  }
  return sha256(std::as_bytes(std::span(weights)));
}

void train_on(training& run, std::uint64_t steps) {
  const std::uint64_t end = run.progress().steps + steps;
  while (run.progress().steps < end) run.wait_for(5ms);
}

class TrainingPolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainingPolicy, BalancesTheLedgerAndTrainsEveryBatch) {
  for (const std::uint32_t shards : {1U, 2U}) {
    const training_report r = completed(options_for(GetParam(), 2, {.shards = shards}), small_data(1000));
    EXPECT_EQ(r.steps, 500U);
    EXPECT_EQ(r.samples, 4000U);
    const std::uint64_t taken = r.ledger.applied + r.ledger.merged;
    EXPECT_EQ(taken + r.ledger.discarded_in_all(), 500U);
    EXPECT_TRUE(may_discard(GetParam()) || taken == 500) << taken;
    EXPECT_TRUE(shards > 1 || r.staleness.total() == taken) << r.staleness.total();
    EXPECT_EQ(r.parameters_sha256.size(), 64U);
    EXPECT_EQ(r.policy, GetParam());
    EXPECT_GT(r.test_accuracy.value(), 0.7) << "a third is guessing";
    EXPECT_TRUE(r.final_loss);
    EXPECT_GT(r.wall_seconds, 0);
  }
}

TEST_P(TrainingPolicy, EndsInGoodOrderWhenItIsStopped) {
  training run(small_model(), small_data(), endless(GetParam(), 2, {.shards = 2}));
  train_on(run, 1);
  run.stop("enough");
  const training_report r = expect_ended("stopped", "enough", run.report());
  EXPECT_EQ(r.ledger.lost, 0U) << "what was begun is taken";
  EXPECT_GT(r.steps, 0U);
}

TEST_P(TrainingPolicy, SaysWhyWhenTheLossDiverges) {
  training_options o = options_for(GetParam(), 2, {.optimizer = "sgd", .rate = 1e30});
  o.optimizer.l2 = 1e30; // the first step throws every weight out of range
  const training_report r =
      expect_ended("diverged", AllOf(HasSubstr("worker"), HasSubstr("step"), HasSubstr("loss")), trained(o));
  EXPECT_GE(r.ledger.discarded.at("not finite"), 1U);
  EXPECT_FALSE(r.test_accuracy);
}

TEST_P(TrainingPolicy, ReturnsFromTheDestructorOfARunInProgress) {
  training run(small_model(), small_data(), endless(GetParam()));
  train_on(run, 1);
}

TEST_P(TrainingPolicy, RunsMoreWorkersThanThreads) {
  EXPECT_EQ(completed(options_for(GetParam(), 5, {.shards = 2}), small_data(500)).devices.size(), 5U);
}

TEST_P(TrainingPolicy, TrainsASparseModel) {
  const training_options o =
      options_for(GetParam(), 2, {.optimizer = "adagrad", .rate = {}, .epochs = 20, .shards = 2});
  EXPECT_GT(completed(o, sparse_data(200)).test_accuracy.value(), 0.6);
}

TEST_P(TrainingPolicy, CountsStepsOfAllWorkersTogether) {
  EXPECT_EQ(completed(options_for(GetParam(), 3, {.steps = 17})).steps, 17U);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, TrainingPolicy,
                         ::testing::Values("async", "sync", "hogwild", "ssp:1", "dssp:1,3", "backup:1",
                                           "k-async:2", "k-batch-async:2", "rennala:2", "ringmaster:2",
                                           "async, sync@5, backup:1@9"),
                         name_of_policy);

class TrainingAlone : public ::testing::TestWithParam<const char*> {
protected:
  static void expect_weights_of_a_loop(const std::shared_ptr<const data_split>& data,
                                       std::initializer_list<const char*> policies) {
    training_options o = options_for("async", 1, {.optimizer = GetParam(), .rate = {}});
    const std::string expected = trained_in_sequence(o, data);
    for (const char* policy : policies)
      for (const std::uint32_t shards : {1U, 2U, 3U}) {
        o.policy = policy;
        o.shards = shards;
        EXPECT_EQ(trained(o, data).parameters_sha256, expected) << policy << ", shards: " << shards;
      }
  }
};

TEST_P(TrainingAlone, MakesTheWeightsOfASequentialLoopInEveryPolicy) {
  for (const std::size_t samples : {48U, 45U}) // with and without a short last batch
    expect_weights_of_a_loop(small_data(samples), {"async", "sync", "hogwild"});
}

TEST_P(TrainingAlone, MakesTheRowsOfASequentialLoop) {
  expect_weights_of_a_loop(sparse_data(), {"async", "sync"});
}

INSTANTIATE_TEST_SUITE_P(SeveralRules, TrainingAlone, ::testing::Values("sgd", "momentum", "adam", "adamw"),
                         name_of_policy);

TEST(Training, ConservesStalenessOnRealThreads) {
  assembly a{.workers = 4, .batches = 400, .overhear = true};
  caf::actor_system_config config;
  register_messages(config);
  config.set(caf_compat::option("scheduler.max-threads"), std::size_t{3});
  actor_home home(config);
  const assembled_run run(home.system(), a, small_data(), std::make_shared<machine_time>());
  for (const shard_report& s : run.outcome().shards) {
    EXPECT_EQ(s.version.value, a.batches);
    expect_staleness_conserved(s, run.notes_of_shard(s.shard.value));
  }
  EXPECT_TRUE(report_of(run.outcome()).ledger.balances());
}

TEST(Training, LeavesTheAccuracyOutIfTheTestIsEnded) {
  training run(small_model(), small_data(), options_for("async", 1));
  const training_report r =
      expect_ended("completed", "the test was ended early", run.report([] { return true; }));
  EXPECT_FALSE(r.test_accuracy);
  EXPECT_EQ(r.parameters_sha256.size(), 64U);
}

// Workers start anew from one version and are stopped together. After the feeder has heard of it, each makes
// the step it is in and that of the batch it has, two at most; so no more than two updates by each of the
// others pass the weights that a worker reads last. All else that passes a worker is a gap: with U updates,
// gaps sum up to (M - 1) U, less 2 (M - 1) for each worker at most.
TEST(Training, HasAMeanStalenessOfAllOtherWorkers) {
  for (const std::uint32_t workers : {2U, 4U}) {
    training run(small_model(), small_data(),
                 endless("sync, async@" + std::to_string(workers), workers, {.shards = 2}));
    train_on(run, 4000);
    run.stop("enough");
    const training_report r = run.report();
    ASSERT_EQ(r.switches.size(), 1U);
    const auto most = static_cast<double>(workers - 1);
    const double edge = workers * 2 * most / static_cast<double>(r.ledger.applied);
    EXPECT_LT(edge, 0.01) << r.ledger.applied;
    for (std::uint32_t s = 0; s < 2; ++s) {
      double gaps = 0;
      for (const exchange_figures& x : r.exchanges)
        if (x.shard == s)
          for (const auto& [gap, count] : x.gaps.buckets()) gaps += static_cast<double>(gap * count);
      const double mean = gaps / static_cast<double>(r.ledger.applied); // those merged before are fresh
      EXPECT_LE(mean, most) << workers << " workers, shard " << s;
      EXPECT_GE(mean, most - edge) << workers << " workers, shard " << s;
    }
  }
}

TEST(Training, NamesNothingThatWaitsOnceItHasEnded) {
  training run(small_model(), small_data(), options_for("sync", 2));
  static_cast<void>(run.report());
  EXPECT_TRUE(run.wait_for(0ms));
  EXPECT_THAT(run.list_wait_reasons(0ms), IsEmpty());
}

TEST(ShortForms, MeanWhatTheLongOnesMean) {
  EXPECT_EQ(cpus(2), (std::vector<device>{{device_kind::cpu, 0}, {device_kind::cpu, 1}}));
  EXPECT_EQ(gpus(2), (std::vector<device>{{device_kind::cuda, 0}, {device_kind::cuda, 1}}));
  const training_options o = options_for("sync", 1);
  EXPECT_EQ(train(mlp({8}), small_data(), o).parameters_sha256,
            train(find_model("mlp:hidden=8"), small_data(), o).parameters_sha256);
  EXPECT_THROW(serve(mlp({8}), small_data(), o, "nowhere"), std::invalid_argument);
}

// ---- whose policy changes on the way

TEST(Training, SwitchesAtAPlannedStepAndSaysWhen) {
  const training_report r =
      completed(options_for("async, sync@20, ssp:1@60", 2, {.shards = 2}), small_data(1000));
  ASSERT_EQ(r.switches.size(), 2U);
  EXPECT_EQ(r.switches[0].from, "async");
  EXPECT_EQ(r.switches[0].to, "sync");
  EXPECT_THAT(r.switches[0].why, HasSubstr("step 20"));
  EXPECT_LE(r.switches[0].step, 20U) << "what comes after it is trained after it";
  EXPECT_GE(r.switches[0].step + 2, 20U) << "each worker may hold one batch, dealt ahead";
  EXPECT_GT(r.ledger.applied, 0U);
  EXPECT_GT(r.ledger.merged, 0U);
}

TEST(Training, SwitchesToHogwildAndBack) {
  for (const char* policy : {"sync, hogwild@40, async@80", "hogwild, sync@60", "async, hogwild@60"})
    for (const std::uint32_t shards : {1U, 3U}) {
      SCOPED_TRACE(std::string(policy) + ", shards " + std::to_string(shards));
      const training_report r = completed(options_for(policy, 2, {.shards = shards}), small_data(1000));
      EXPECT_EQ(r.ledger.produced, r.steps);
      EXPECT_EQ(r.ledger.discarded_in_all() + r.ledger.lost, 0U);
      EXPECT_FALSE(r.switches.empty());
      EXPECT_GT(*r.test_accuracy, 0.8);
    }
}

// A rule without state: nothing but the schedule could tell who made an update.
TEST(Training, FollowsOneScheduleOnItsWayToHogwildAndBack) {
  for (const char* schedule :
       {"constant:warmup=8", "step:every=5,factor=0.5", "step:every=8,factor=0", "cosine:total=20"})
    for (const auto& data : {small_data(), sparse_data()}) {
      training_options o = options_for("async", 1, {.optimizer = "sgd", .clip_norm = 0.5});
      o.optimizer.schedule = parse_schedule(schedule);
      o.optimizer.l2 = 0.01;
      o.optimizer.weight_decay = 0.02;
      const std::string expected = trained(o, data).parameters_sha256;
      for (const char* policy :
           {"hogwild", "async, hogwild@6", "async, hogwild@6, async@13", "sync, hogwild@3, ssp:1@9",
            "hogwild, async@7", "async, hogwild@5, sync@9"}) {
        SCOPED_TRACE(std::string(policy) + ", " + schedule + ", " + data->name);
        o.policy = policy;
        o.shards = 2;
        const training_report r = trained(o, data);
        EXPECT_EQ(r.parameters_sha256, expected);
        EXPECT_TRUE(data->train.is_sparse() || r.updates == r.steps);
      }
    }
}

// The learning rate is 0 from the 21st update on, and two workers in step make the first 20 in every run.
TEST(Training, LearnsNoLongerThanItsScheduleLastsWithSeveralWorkers) {
  for (const auto& data : {small_data(400), sparse_data(400)}) {
    training_options o = options_for("sync", 2);
    o.optimizer.schedule = parse_schedule("step:every=20,factor=0");
    const std::string expected = trained(o, data).parameters_sha256;
    for (const char* policy : {"sync, hogwild@60", "sync, hogwild@60, async@90"}) {
      o.policy = policy;
      EXPECT_EQ(trained(o, data).parameters_sha256, expected) << policy << ", " << data->name;
    }
  }
}

TEST(Training, SwitchesARunInProgressWhenItIsAsked) {
  training run(small_model(), small_data(), endless("async"));
  train_on(run, 1);
  run.switch_policy("sync", "to see what happens");
  EXPECT_THROW(run.switch_policy("backup:2", ""), std::invalid_argument);
  EXPECT_THROW(run.switch_policy("hogwild", ""), std::invalid_argument);
  train_on(run, 1000);
  run.stop("enough");
  const training_report r = expect_ended("stopped", "enough", run.report());
  ASSERT_EQ(r.switches.size(), 1U);
  EXPECT_EQ(r.switches[0].why, "to see what happens");
  EXPECT_GT(r.ledger.merged, 0U);
}

TEST(Training, StaysUnderThePolicyThatIsAskedForAgain) {
  training run(small_model(), small_data(), endless("async"));
  const auto ask_again = [&](const std::string& policy) {
    EXPECT_THAT([&] { run.switch_policy(policy, "once more"); },
                ThrowsMessage<std::invalid_argument>("policy '" + policy + "': the run is under " + policy +
                                                     " already"));
  };
  ask_again("async");
  run.switch_policy("sync", "to see what happens");
  ask_again("sync");
  train_on(run, 1000);
  ask_again("sync");
  run.stop("enough");
  EXPECT_EQ(run.report().switches.size(), 1U);
}

TEST(Training, SwitchesNoPolicyAfterItsEnd) {
  training run(small_model(), small_data(), options_for("async", 2));
  while (!run.wait_for(100ms)) {
  }
  EXPECT_THAT([&] { run.switch_policy("sync", "a wish"); },
              ThrowsMessage<std::invalid_argument>("policy 'sync': the run has ended, and switches no more"));
  EXPECT_THAT(run.report().switches, IsEmpty());
}

// ---- what is refused, before a run begins or later

TEST(Training, RefusesWhatCannotBeTrained) {
  for (const training_options& o : {options_for("async", 1, {.shards = 1'000'000}), options_for("asink", 1),
                                    options_for("async", 1, {.rate = -1})})
    EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  training_options o = options_for("async", 1);
  o.devices = {{device_kind::cuda, 77}};
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
}

/// Another process may have gone on in the folder while this one read the checkpoint.
TEST(Training, RefusesToGoOnFromWhatIsNoLongerTheNewest) {
  const scratch_folder folder;
  training_options o = options_for("async", 1, {.steps = 5});
  o.checkpoints.folder = folder.path().string();
  trained(o);
  o.steps = 10;
  o.resume = newest_in(folder.path());
  trained(o);
  o.steps = 15;
  EXPECT_EQ(trained(o).ended, "completed") << "that file was named";
  o.steps = 20;
  o.resume_newest = true;
  expect_refused({"the second", [&] { training(small_model(), small_data(), o); },
                  "another process has written " + checkpoint_name(15) + " there meanwhile"});
  o.checkpoints.folder = (folder.path() / "elsewhere").string();
  EXPECT_EQ(trained(o).ended, "completed") << "where nobody writes";
}

/// What no check beforehand can know, since a label is data.
TEST(Training, SaysInItsReportWhichLabelTheLogitsDoNotHave) {
  const auto line = std::to_string(__LINE__ + 4);
  const model_function model = [](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, r.sample_dims[0]});
    const value labels = g.input("labels", {r.batch}, dtype::int32);
    const value loss = cross_entropy(dense(x, 2, "two"), labels);
    return model_outputs{dense(x, r.classes, "answers"), loss};
  };
  expect_ended(
      "failed",
      HasSubstr("training_test.cpp:" + line + ": cross_entropy: label 2, but the logits have 2 classes"),
      train(model, small_data(), options_for("async", 1)));
}

/// Whichever time it is built: for a check, for the layout, or for a worker when others already live.
TEST(Training, EndsWhoeverLivesIfAModelCannotBeBuilt) {
  int thrown = 0;
  for (bool begun = false; !begun; ++thrown) {
    const auto built = std::make_shared<std::atomic<int>>(0);
    const model_function model = [built, most = thrown](graph& g, const model_request& request) {
      if (++*built > most) throw std::runtime_error("the test wants it");
      return small_model()(g, request);
    };
    try {
      training run(model, small_data(), options_for("sync", 2));
      begun = true;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "the test wants it");
    }
  }
  EXPECT_GT(thrown, 3) << "with two workers";
}

// ---- that begin with weights that another run has trained

class StartedTraining : public ::testing::Test {
protected:
  /// Weights that are not those that any seed draws.
  std::shared_ptr<const saved_weights> trained_weights() {
    training run(small_model(), small_data(), options_for("async", 1));
    const training_report r = run.report();
    save_weights(path_, run.weights(), card_for("small", *small_data()), to_json(r));
    return std::make_shared<const saved_weights>(load_weights(path_));
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "small.safetensors";
};

/// With a learning rate that changes no weight, a run ends with what it began with.
TEST_F(StartedTraining, BeginsWithTheGivenWeightsUnderEveryPolicy) {
  const auto start = trained_weights();
  const auto ended_with = [&](training_options o) {
    o.start = start;
    o.optimizer.learning_rate = 1e-30;
    o.steps = 4;
    training run(small_model(), small_data(), o);
    EXPECT_EQ(run.report().ended, "completed");
    std::vector<float> all;
    for (const named_weights& w : run.weights()) all.insert(all.end(), w.values.begin(), w.values.end());
    return all;
  };
  std::vector<float> expected;
  for (const saved_weights::variable& v : start->variables)
    expected.insert(expected.end(), v.values.values().begin(), v.values.values().end());
  for (const char* policy : {"async", "sync", "hogwild", "hogwild, sync@2"})
    for (const std::uint32_t shards : {1U, 3U})
      EXPECT_EQ(ended_with(options_for(policy, 2, {.optimizer = "sgd", .shards = shards})), expected)
          << policy << " with " << shards << " shards";
  const training_options local = options_for("async", 2, {.optimizer = "sgd", .local_steps = 2});
  EXPECT_THAT(ended_with(local), Pointwise(FloatNear(1e-6F), expected)) << "differences are rounded";
}

TEST_F(StartedTraining, LearnsOnFromWhereTheOtherRunEnded) {
  training_options o = options_for("async", 1, {.steps = 6});
  const double from_scratch = trained(o).final_loss.value();
  o.start = trained_weights();
  EXPECT_LT(trained(o).final_loss.value(), 0.8 * from_scratch);
}

TEST_F(StartedTraining, RefusesWeightsOfAnotherModelUnlessTheyNeedNotFit) {
  auto other = std::make_shared<saved_weights>();
  other->file = "other.safetensors";
  other->variables.push_back({"dense1/weights", tensor({4, 9})});
  tensor bias({8});
  std::ranges::fill(bias.values(), 0.5F);
  other->variables.push_back({"dense1/bias", std::move(bias)});
  training_options o = options_for("sync", 1, {.optimizer = "sgd", .rate = 1e-30, .steps = 1});
  o.start = other;
  expect_refused({"as a whole", [&] { training(small_model(), small_data(), o); },
                  "weights of 'other.safetensors': variable 'dense1/weights' is 4x9 in the file, and 4x8 in "
                  "the model; 2 more differences"});
  o.start_whole = false;
  training run(small_model(), small_data(), o);
  run.report();
  const std::vector<named_weights> all = run.weights();
  EXPECT_THAT(std::ranges::find(all, "dense1/bias", &named_weights::name)->values, ::testing::Each(0.5F));
}

TEST_F(StartedTraining, IsReplayedOnlyWithTheSameWeights) {
  training_options o = options_for("async", 2);
  o.start = trained_weights();
  o = expect_repeatable(o);
  o.start = nullptr;
  expect_refused({"drawn weights", [&] { trained(o); }, "and is drawn by the seed here"});
}

} // namespace
} // namespace mailgrad::testing
