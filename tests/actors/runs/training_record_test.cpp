#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <functional>
#include <sstream>

namespace mailgrad::testing {
namespace {

using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not, ::testing::ThrowsMessage;

class TrainingRecord : public ::testing::Test {
protected:
  static training_options four_workers(const std::string& policy = "async", std::uint64_t epochs = 20) {
    return options_for(policy, 4, {.rate = {}, .epochs = epochs, .shards = 2, .seed = 1});
  }
  training_options recorded(const std::string& policy = "async", std::uint64_t epochs = 20) const {
    training_options o = four_workers(policy, epochs);
    o.record = path_;
    return o;
  }
  recording read() const { return read_recording(path_); }
  static training_options replay_of(recording r) {
    training_options o = four_workers();
    o.replay = std::make_shared<const recording>(std::move(r));
    return o;
  }
  static void expect_refused(const recording& r, const std::string& why) {
    EXPECT_THAT([&] { training(small_model(), small_data(), replay_of(r)); },
                ThrowsMessage<recording_error>(HasSubstr(why)));
  }
  /// Why a replay is refused after `change` of its options; empty if it is not.
  std::string refusal(const std::function<void(training_options&)>& change,
                      const std::shared_ptr<const data_split>& data = small_data(),
                      const model_function& model = small_model()) const {
    training_options o = replay_of(read());
    change(o);
    try {
      const training run(model, data, o);
    } catch (const recording_error& e) {
      return e.what();
    }
    return "";
  }

  const scratch_folder folder_;
  const std::string path_ = (folder_.path() / "run.rec").string();
};

TEST_F(TrainingRecord, IsRepeatedBitForBit) {
  for (const char* policy : {"async", "ssp:1", "backup:1", "dssp:0,3", "async, sync@40, k-async:2@80"}) {
    SCOPED_TRACE(policy);
    training_options o = recorded(policy);
    const training_report was = completed(o);
    o = testing::replay_of(o);
    EXPECT_EQ(o.replay->end.parameters_sha256, was.parameters_sha256);
    const training_report is = completed(o);
    EXPECT_EQ(is.parameters_sha256, was.parameters_sha256);
    EXPECT_EQ(is.ledger, was.ledger);
    EXPECT_EQ(is.staleness.buckets(), was.staleness.buckets());
    EXPECT_EQ(is.switches.size(), was.switches.size());
    EXPECT_EQ(is.test_accuracy, was.test_accuracy);
  }
}

TEST_F(TrainingRecord, HoldsSwitchesThatSomebodyAskedFor) {
  const training_options o = recorded("async", 200);
  training_report was;
  {
    training run(small_model(), small_data(), o);
    run.switch_policy("ssp:1", "by hand");
    run.switch_policy("k-async:2", "by hand again");
    was = run.report();
    EXPECT_EQ(run.recording_failure(), "");
  }
  const training_report is = trained(testing::replay_of(o));
  EXPECT_EQ(is.parameters_sha256, was.parameters_sha256);
  ASSERT_EQ(is.switches.size(), was.switches.size());
  for (std::size_t i = 0; i < is.switches.size(); ++i) {
    EXPECT_EQ(is.switches[i].step, was.switches[i].step);
    EXPECT_EQ(is.switches[i].why, was.switches[i].why);
  }
}

TEST_F(TrainingRecord, TakesAtMostThirtyTwoBytesAnUpdateOfAShard) {
  for (const std::uint32_t shards : {1U, 2U}) {
    training_options o = recorded();
    o.shards = shards;
    const training_report r = trained(o);
    const recording read_back = read_recording(path_);
    std::stringbuf empty;
    recording_writer writer(std::make_unique<std::ostream>(&empty), path_, read_back.header);
    const std::uint64_t few_entries = 4 * 4 * 16 + 3 * 8; // workers that join and leave; heads of three parts
    writer.end(read_back.end);
    EXPECT_LE(std::filesystem::file_size(path_),
              empty.view().size() + few_entries * shards + 32 * shards * r.steps);
  }
}

TEST_F(TrainingRecord, IsRefusedForAnotherRun) {
  trained(recorded());
  EXPECT_EQ(refusal([](training_options&) {}), "");
  EXPECT_THAT(refusal([](auto& o) { o.devices.pop_back(); }),
              AllOf(HasSubstr(path_), HasSubstr("the number of workers was 4, and is 3 here")));
  EXPECT_THAT(refusal([](auto& o) { o.shards = 1; }), HasSubstr("the number of shards was 2, and is 1 here"));
  EXPECT_THAT(refusal([](auto& o) { o.seed = 2; }), HasSubstr("--seed was 1, and is 2 here"));
  EXPECT_THAT(refusal([](auto& o) { o.policy = "sync"; }), HasSubstr("--policy was async, and is sync here"));
  EXPECT_THAT(refusal([](auto& o) { o.optimizer.learning_rate = 0.5; }), HasSubstr("--lr was"));
  EXPECT_THAT(refusal([](auto&) {}, small_data(47)), HasSubstr("training samples was 48, and is 47 here"));
  const auto known = small_data();
  data_split samples = *known, targets = *known;
  samples.train = small_samples(48, 9);
  const auto rows_of = [](const dataset& d) { return std::get<float_features>(d.features()); };
  targets.train = dataset(rows_of(known->train), std::vector<float>(48, 0.5F));
  targets.test = dataset(rows_of(known->test), std::vector<float>(24, 0.5F));
  for (const data_split& other : {samples, targets})
    EXPECT_THAT(refusal([](auto&) {}, std::make_shared<data_split>(other)),
                HasSubstr("the training data were small (SHA-256 "));
  const model_function wider = [](graph& g, const model_request& r) {
    return build_classifier(g, {dense_layer{9, activation::tanh}, dense_layer{}}, r);
  };
  EXPECT_THAT(refusal([](auto&) {}, small_data(), wider), HasSubstr("the model was SHA-256 "));
}

/// A layer with a dropout, some numbers of which stand in no shape.
struct numbers {
  float first_weight = 0.25F;
  float added = 1;
  float rate = 0.1F;
  std::uint64_t seed = 7;
};

model_function model_of(const numbers& n) {
  return [n](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, small_features});
    const value labels = g.input("labels", {r.batch}, dtype::int32);
    const value w = g.variable("w", {small_features, r.classes}, initialiser::constant(n.first_weight));
    const value logits = matmul(dropout(add(x, g.constant(n.added)), n.rate, n.seed), w);
    return model_outputs{logits, cross_entropy(logits, labels)};
  };
}

TEST_F(TrainingRecord, IsRefusedForAModelWithAnotherNumber) {
  training_options o = recorded();
  o.shards = 1; // there is but one variable
  train(model_of({}), small_data(), o);
  const auto of_one_shard = [](training_options& options) { options.shards = 1; };
  EXPECT_EQ(refusal(of_one_shard, small_data(), model_of({})), "");
  for (const numbers& n : {numbers{.first_weight = 0.5F}, {.added = 2}, {.rate = 0.1F + 1e-8F}, {.seed = 8}})
    EXPECT_THAT(refusal(of_one_shard, small_data(), model_of(n)), HasSubstr("the model was SHA-256 "));
}

TEST_F(TrainingRecord, OfAKilledRunIsRepeatedAsFarAsItGoes) {
  for (const char* policy : {"async", "sync", "async, ssp:1@40"}) {
    SCOPED_TRACE(policy);
    training_options o = recorded(policy, 100);
    trained(o);
    std::ostringstream bytes;
    bytes << std::ifstream(path_, std::ios::binary).rdbuf();
    o.record.clear();
    std::uint64_t steps = 0;
    for (const std::size_t out_of_ten : {0U, 5U, 9U, 10U}) {
      const std::size_t length = std::max<std::size_t>(4096, bytes.str().size() * out_of_ten / 10);
      o.replay =
          std::make_shared<const recording>(parse_killed_recording(bytes.str().substr(0, length), path_));
      const training_report is = completed(o);
      EXPECT_EQ(is.why, "the recording ends after " + std::to_string(is.steps) +
                            " of 600 steps, since it was not completed");
      EXPECT_GE(is.steps, steps);
      steps = is.steps;
    }
    EXPECT_EQ(steps, 600U);
  }
}

/// The rehearsal believes that the worker diverged; its loss is what it is.
TEST_F(TrainingRecord, EndsIfAGradientHasNoEntry) {
  trained(recorded());
  recording r = read();
  const auto first = std::ranges::find(r.entries[0], order_entry::kind::gradient, &order_entry::what);
  ASSERT_NE(first, r.entries[0].end());
  const rank robbed = first->worker; // one that was dealt a batch, which not all need have been
  for (auto& entries : r.entries) {
    const auto last = std::find_if(entries.rbegin(), entries.rend(), [&](const order_entry& t) {
      return t.what == order_entry::kind::gradient && t.worker == robbed;
    });
    ASSERT_NE(last, entries.rend());
    entries.erase(std::next(last).base());
  }
  EXPECT_THROW(trained(replay_of(r)), recording_error);
  r.end.ended = "diverged";
  expect_ended("failed",
               AllOf(HasSubstr("worker " + std::to_string(robbed.value)),
                     HasSubstr("has no turn for its gradient of step"), Not(HasSubstr("does not balance"))),
               trained(replay_of(r)));
}

TEST_F(TrainingRecord, IsRefusedIfItsReplayWouldHang) {
  trained(recorded());
  recording r = read();
  for (auto& entries : r.entries)
    std::erase_if(entries, [](const order_entry& t) { return t.worker == rank{3}; });
  expect_refused(r, "worker 3 never joins shard 0");
}

TEST_F(TrainingRecord, IsRefusedWhereMachineOrVersionRoundOtherwise) {
  trained(recorded());
  for (const char* fact : {"arithmetic", "version of mailgrad"}) {
    recording r = read();
    for (auto& [name, value] : r.header.facts)
      if (name == fact) value = "of another kind";
    expect_refused(r, "the " + std::string(fact) + " was of another kind, and is ");
  }
}

TEST_F(TrainingRecord, IsRefusedIfItSwitchesToWhatItsCureExcludes) {
  training_options o = recorded("async, ssp:2@40");
  o.cure = "dana-zero";
  o.optimizer = parse_optimizer("sgd");
  trained(o);
  recording r = read();
  r.end.switches.at(0).policy = "k-async:2";
  o.record.clear();
  o.replay = std::make_shared<const recording>(r);
  EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
}

TEST_F(TrainingRecord, IsNotForHogwild) {
  EXPECT_THROW(training(small_model(), small_data(), recorded("hogwild")), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TrainingRecord, IsRefusedIfTheDiskIsFullFromTheStart) {
  training_options o = four_workers();
  o.record = "/dev/full";
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
}

/// What could be written is repeated as far as it goes, and an older recording stays.
TEST_F(TrainingRecord, EndsWhenTheDiskIsFullAndTheRunGoesOn) {
  folder_.write("run.rec", "an older recording");
  training_options o = recorded("async", 1000);
  training_report r;
  const auto begin = std::chrono::steady_clock::now();
  {
    const full_disk full(200'000);
    training run(small_model(), small_data(), o);
    r = run.report();
    EXPECT_THAT(run.recording_failure(), HasSubstr("File too large"));
  }
  EXPECT_EQ(r.ended, "completed");
  EXPECT_THAT(r.recording.value().failure, HasSubstr("File too large"));
  EXPECT_GT(r.recording->seconds, 0);
  // The recorder has its own thread, and may be behind when training ends.
  EXPECT_LE(r.recording->seconds, in_seconds(std::chrono::steady_clock::now() - begin));
  EXPECT_EQ(r.recording->kept, path_ + ".partial");
  EXPECT_EQ(r.recording->kept_bytes, std::filesystem::file_size(path_ + ".partial"));
  EXPECT_EQ(r.recording->bytes, r.recording->kept_bytes);
  EXPECT_EQ(std::filesystem::file_size(path_), 18U) << "the older one";
  o = replay_of(read_recording(path_ + ".partial"));
  o.epochs = 1000;
  const training_report again = completed(o);
  EXPECT_GT(again.steps, 0U);
  EXPECT_LT(again.steps, r.steps);
}

TEST_F(TrainingRecord, LeavesTheOlderOneUntilItIsWhole) {
  folder_.write("run.rec", "an older recording");
  const auto older = [this] {
    std::string text;
    std::getline(std::ifstream(path_), text);
    return text;
  };
  {
    training run(small_model(), small_data(), recorded());
    run.wait_for(std::chrono::minutes{1});
    EXPECT_EQ(older(), "an older recording");
  }
  EXPECT_EQ(older(), "an older recording") << "nobody asked for the report, so nothing completed the new one";
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  trained(recorded());
  EXPECT_EQ(read().end.ended, "completed");
}

TEST_F(TrainingRecord, IsNotMadeOfAReplay) {
  trained(recorded());
  training_options o = replay_of(read());
  o.record = path_;
  EXPECT_THAT([&] { trained(o); }, ThrowsMessage<std::invalid_argument>(HasSubstr("makes none of its own")));
}

TEST_F(TrainingRecord, TakesNoSwitchInAReplay) {
  trained(recorded());
  training run(small_model(), small_data(), replay_of(read()));
  EXPECT_THROW(run.switch_policy("sync", "by hand"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad::testing
