#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/watcher.hpp>

#include <mailgrad/tests/actors/runs/kinds_of_data.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// Runs whose workers join over TCP end as runs of one process do. Server and workers are systems of their own
// in this process, which meet by way of sockets alone.

namespace mailgrad::remote {
namespace {

using mailgrad::testing::options_for;
using mailgrad::testing::small_data;
using mailgrad::testing::small_model;
using ::testing::HasSubstr;

/// A run of one kind, in one process or spread.
struct kind_of_run {
  std::string name;
  training_options options;
  std::shared_ptr<const data_split> data = small_data();
  model_function model = small_model();
};

void PrintTo(const kind_of_run& k, std::ostream* out) { *out << k.name; }

/// Trains with workers that join over TCP.
training_report trained_elsewhere(const kind_of_run& kind) {
  const auto workers = static_cast<std::uint32_t>(kind.options.devices.size());
  std::vector<std::future<net::ending>> members;
  serve_options serve;
  serve.workers = workers;
  serve.on_listening = [&](const std::string& address) {
    for (std::uint32_t r = 0; r < workers; ++r)
      members.push_back(std::async(std::launch::async, [address, r] {
        membership here(address, {.place = {device_kind::cpu, 0}, .number = r});
        return here.wait();
      }));
  };
  training run(kind.model, kind.data, kind.options, serve);
  training_report report = run.report();
  for (auto& m : members) {
    const net::ending end = m.get();
    EXPECT_EQ(end.reason, net::end_reason::left) << end.words;
  }
  return report;
}

kind_of_run with(
    std::string name, const std::string& policy, std::uint32_t workers,
    const std::function<void(training_options&)>& change = [](training_options&) {}) {
  kind_of_run kind{std::move(name), options_for(policy, workers)};
  change(kind.options);
  return kind;
}

kind_of_run model(std::string name, const std::string& text, std::shared_ptr<const data_split> data) {
  kind_of_run kind{std::move(name), options_for("sync", 2), std::move(data), *built_in_model(text)};
  kind.options.epochs = 2;
  return kind;
}

/// Runs that end with the same bits each time, since one worker trains or a barrier orders them.
std::vector<kind_of_run> kinds() {
  const auto cured = [](const std::string& cure, const std::string& optimizer, std::uint64_t local_steps) {
    return [=](training_options& o) {
      o.cure = cure;
      o.optimizer = parse_optimizer(optimizer);
      o.optimizer.learning_rate = 0.05;
      o.local_steps = local_steps;
    };
  };
  return {
      with("Sync", "sync", 2),
      with("ThreeShards", "sync", 2, [](training_options& o) { o.shards = 3; }),
      with("OneWorker", "async", 1),
      with("ShortLastBatch", "sync", 2, [](training_options& o) { o.batch = 7; }),
      with("Bound", "ssp:2", 1),
      with("SwitchedPolicies", "async, sync@5, ssp:1@9", 1),
      with("ClippedAdam", "sync", 2,
           [](training_options& o) {
             o.optimizer = parse_optimizer("adam");
             o.optimizer.clip_norm = 0.1;
           }),
      with("DelayCompensation", "async", 1, cured("dc-asgd", "momentum", 0)),
      with("LocalSteps", "sync", 2, cured("none", "adam", 2)),
      with("ElasticAveraging", "sync", 2, cured("easgd", "nesterov", 3)),
      with("SampledGaps", "sync", 2, [](training_options& o) { o.sample_gap = 3; }),
      model("Dropout", "mlp:hidden=9x7,dropout=0.25", small_data()),
      model("LeNet", "lenet", mailgrad::testing::pictures()),
      model("Gpt", "gpt:layers=2,width=8,heads=2,dropout=0.1", mailgrad::testing::text()),
      model("Dlrm", "dlrm:width=4,bottom=6,top=8", mailgrad::testing::tastes()),
      model("SparseRows", "softmax", mailgrad::testing::sparse_data()),
  };
}

struct RemoteRuns : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RemoteRuns, EndWithTheSameWeightsAsInOneProcess) {
  const training_report here = train(GetParam().model, GetParam().data, GetParam().options);
  const training_report there = trained_elsewhere(GetParam());
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.ledger.produced, here.ledger.produced);
  EXPECT_TRUE(there.ledger.balances());
  EXPECT_EQ(there.gradient_cosine.count(), here.gradient_cosine.count());
}

INSTANTIATE_TEST_SUITE_P(All, RemoteRuns, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(RemoteTraining, MeasuresTheTimeOnTheWire) {
  const training_report there = trained_elsewhere(with("", "async", 2));
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_GT(there.times.wire.count(), 0U);
  EXPECT_GT(there.times.wire.total(), instant{0});
  EXPECT_LT(there.times.wire.mean_seconds(), 1.0);
  EXPECT_GT(there.times.compute.count(), 0U);
  EXPECT_GT(there.times.mailbox.count(), 0U);
  const training_report here = mailgrad::testing::trained(options_for("async", 2));
  EXPECT_TRUE(here.times.wire.empty()) << "there is no wire in one process";
}

TEST(RemoteTraining, IsReplayedInOneProcessBitForBit) {
  const scratch_folder folder;
  kind_of_run kind = with("", "async", 3, [](training_options& o) { o.shards = 2; });
  kind.options.record = (folder.path() / "recording").string();
  const training_report there = trained_elsewhere(kind);
  ASSERT_EQ(there.ended, "completed") << there.why;
  training_options again = kind.options;
  again.record.clear();
  again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
  const training_report here = train(kind.model, kind.data, again);
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

/// A run that waits for its workers in a thread of its own, and tells where it listens.
class open_run {
public:
  open_run(training_options o, std::uint32_t workers) {
    serve_options serve;
    serve.workers = workers;
    serve.on_listening = [this](const std::string& address) { address_.set_value(address); };
    serve.on_event = [this](const std::string& words) {
      const std::lock_guard lock(mutex_);
      events_.push_back(words);
      changed_.notify_all();
    };
    ended_ = std::async(std::launch::async, [this, o, serve] {
      training run(small_model(), small_data(480), o, serve);
      return run.report();
    });
    at_ = address_.get_future().get();
  }

  const std::string& address() const { return at_; }
  /// Waits until somebody is told so.
  void wait_for_event(const std::string& words) {
    std::unique_lock lock(mutex_);
    const auto told = [&] {
      return std::ranges::any_of(events_, [&](const std::string& e) { return e.find(words) != e.npos; });
    };
    if (!changed_.wait_for(lock, std::chrono::seconds{20}, told)) ADD_FAILURE() << "nobody says: " << words;
  }
  training_report report() { return ended_.get(); }

private:
  std::promise<std::string> address_;
  std::string at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  std::future<training_report> ended_;
};

/// A run that goes on until it is stopped.
training_options endless(const std::string& policy, std::uint32_t workers) {
  training_options o = options_for(policy, workers);
  o.steps = 1'000'000;
  return o;
}

struct RunsOfAnyPolicy : ::testing::TestWithParam<const char*> {};

TEST_P(RunsOfAnyPolicy, GoesOnThoughAWorkerIsLostAndAnotherComes) {
  open_run run(endless(GetParam(), 2), 2);
  membership stays(run.address(), {});
  {
    membership dies(run.address(), {});
    ASSERT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
    dies.cut();
    run.wait_for_event("lost worker");
  }
  membership comes(run.address(), {});
  EXPECT_THAT(comes.name(), HasSubstr("(incarnation 2)"));
  ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
  watcher(run.address()).ask("stop");
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  EXPECT_EQ(comes.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

INSTANTIATE_TEST_SUITE_P(Policies, RunsOfAnyPolicy,
                         ::testing::Values("async", "sync", "ssp:1", "backup:1", "k-async:2", "rennala:2"),
                         [](const auto& kind) { return mailgrad::testing::test_name(kind.param); });

TEST(RemoteTraining, GoesOnWithoutAWorkerThatLeaves) {
  open_run run(endless("sync", 2), 2);
  membership stays(run.address(), {});
  {
    membership leaves(run.address(), {});
    ASSERT_TRUE(leaves.wait_for_begin(std::chrono::seconds{20}));
    leaves.leave();
    EXPECT_EQ(leaves.wait().reason, net::end_reason::left);
  }
  watcher(run.address()).ask("stop");
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_EQ(r.ledger.lost, 0U) << "it left when its last gradient was answered";
}

TEST(RemoteTraining, AnswersWatchersBeforeAndWhileItRuns) {
  open_run run(endless("async", 2), 2);
  watcher looks(run.address());
  EXPECT_EQ(looks.ask("status"), R"({"waiting": true, "workers": 2, "joined": 0})");
  EXPECT_THAT([&] { looks.ask("switch", "sync"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("waits for 2 workers")));
  membership one(run.address(), {});
  membership two(run.address(), {});
  ASSERT_TRUE(one.wait_for_begin(std::chrono::seconds{20}));
  EXPECT_THAT([&] { looks.ask("switch", "no-such"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("no-such")));
  EXPECT_THAT(looks.ask("switch", "ssp:2"), HasSubstr("ssp:2"));
  EXPECT_THAT([&] { looks.ask("destroy"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("expected status, switch or stop")));
  looks.ask("stop", "seen enough");
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_EQ(r.why, "seen enough");
}

TEST(RemoteTraining, LetsHandlesBeSentToAndWatched) {
  open_run run(endless("async", 1), 1);
  membership here(run.address(), {});
  ASSERT_TRUE(here.wait_for_begin(std::chrono::seconds{20}));
  const worker_peers peers = here.peers();
  ASSERT_TRUE(peers.coordinator && peers.feeder && peers.tracker && !peers.shards.empty());
  std::promise<void> gone;
  peers.coordinator->attach_functor([&](const caf::error&) { gone.set_value(); });
  messaging::send_anonymously(peers.feeder, worker_left{{7}, {}}); // goes, and is of no worker of the run
  watcher(run.address()).ask("stop");
  EXPECT_EQ(here.wait().reason, net::end_reason::left);
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds{20}), std::future_status::ready)
      << "who watches a far actor hears of the end of its process";
  EXPECT_EQ(run.report().ended, "stopped");
}

TEST(RemoteTraining, RefusesWhoHasNoSeat) {
  open_run run(endless("async", 1), 1);
  membership one(run.address(), {});
  EXPECT_THAT([&] { membership two(run.address(), {}); },
              ::testing::ThrowsMessage<join_error>(
                  HasSubstr("number: expected a free one of 1 workers, found none")));
  EXPECT_THAT([&] { membership(run.address(), {.number = 7}); },
              ::testing::ThrowsMessage<join_error>(HasSubstr("expected one of 1 workers, found worker 7")));
  one.leave();
  run.report();
}

TEST(RemoteTraining, RefusesPoliciesThatNeedOneMemory) {
  serve_options serve;
  EXPECT_THAT([&] { training(small_model(), small_data(), options_for("hogwild", 1), serve); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("hogwild")));
}

} // namespace
} // namespace mailgrad::remote
