// Runs whose workers, and perhaps shards, live in systems of their own and meet by way of TCP alone.
#pragma once

#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/net/ending.hpp>

#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <iterator>
#include <mutex>
#include <ostream>

namespace mailgrad::remote {

using mailgrad::testing::options_for;
using mailgrad::testing::small_data;
using mailgrad::testing::small_model;

/// A run that waits for its workers in a thread of its own, and tells where it listens. If they have several
/// devices, its model is a pipeline.
class open_run {
public:
  open_run(training_options o, std::uint32_t workers, const std::string& listen = "127.0.0.1:0",
           std::uint32_t hosts = 0, std::uint32_t devices = 1, std::shared_ptr<net::network> network = {}) {
    serve_options serve;
    serve.network = std::move(network);
    serve.listen = listen;
    serve.workers = workers;
    serve.shard_hosts = hosts;
    serve.devices = devices;
    serve.on_listening = [this](const std::string& address) { address_.set_value(address); };
    serve.on_event = [this](const std::string& words) {
      const std::lock_guard lock(mutex_);
      events_.push_back(words);
      changed_.notify_all();
    };
    const model_function model = mailgrad::testing::small_model();
    ended_ = std::async(std::launch::async, [this, o, serve, model] {
      training run(serve.devices > 1 ? pipelined(model) : model, mailgrad::testing::small_data(480), o,
                   serve);
      training_report report = run.report();
      trace_ = run.trace();
      return report;
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
  /// A worker begins and is cut off.
  void lose_a_worker(join_options o = {}) {
    membership dies(at_, std::move(o));
    EXPECT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
    dies.cut();
    wait_for_event("lost worker");
  }
  training_report report() { return ended_.get(); }
  /// Stops it, which sends these workers home in order.
  training_report stop(const std::vector<membership*>& workers = {}) {
    watcher(at_).ask("stop");
    for (membership* w : workers) EXPECT_EQ(w->wait().reason, net::end_reason::left);
    training_report r = report();
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    return r;
  }
  /// Ends as its only worker leaves. Before it begins it would wait for another.
  void end_with(membership& last) {
    EXPECT_TRUE(last.wait_for_begin(std::chrono::seconds{20}));
    last.leave();
    report();
  }
  /// The timeline, when the report is there.
  const run_trace& trace() const { return trace_; }

private:
  std::promise<std::string> address_;
  std::string at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  run_trace trace_;
  std::future<training_report> ended_;
};

/// A run that goes on until it is stopped.
inline training_options endless(const std::string& policy, std::uint32_t workers) {
  training_options o = mailgrad::testing::options_for(policy, workers);
  o.steps = 1'000'000;
  return o;
}

/// A run of one kind, in one process or spread.
struct kind_of_run {
  std::string name;
  training_options options;
  std::shared_ptr<const data_split> data = small_data();
  model_function model = small_model();
  std::string listen = "127.0.0.1:0";
  std::function<void(parameter_host_options&)> at_host{}; ///< changes how parameter hosts join
  std::function<void(join_options&)> at_worker{};         ///< and workers
  std::function<void(training&)> at_end{};                ///< looks at the run when it has ended
  std::shared_ptr<net::network> network{};                ///< of server and workers; null: the usual one
  std::string words_of_ends{}; ///< what workers say that do not leave in order; empty: all do
  std::string ends = "completed";
};

inline void PrintTo(const kind_of_run& k, std::ostream* out) { *out << k.name; }

/// Trains with workers that join over TCP or by shared memory, and with so many parameter hosts. `samples`
/// gives the samples that a worker has itself, and `on_streamed` hears why they are not taken.
inline training_report
trained_elsewhere(const kind_of_run& kind, std::uint32_t hosts = 0, const std::string& wire = "float32",
                  const std::function<std::shared_ptr<local_samples>(std::uint32_t)>& samples = {},
                  const std::function<void(std::uint32_t, const std::string&)>& on_streamed = {}) {
  const std::uint32_t workers = workers_of(kind.options);
  const auto each = static_cast<std::uint32_t>(kind.options.devices.size()) / workers;
  std::vector<std::future<net::ending>> members;
  serve_options serve;
  serve.workers = workers;
  serve.devices = each;
  serve.shard_hosts = hosts;
  serve.wire = wire;
  serve.listen = kind.listen;
  serve.network = kind.network;
  serve.on_listening = [&](const std::string& address) {
    for (std::uint32_t r = 0; r < workers; ++r)
      members.push_back(std::async(std::launch::async, [&, address, r] {
        join_options o{.devices = {}, .number = r, .network = kind.network};
        for (std::uint32_t d = 0; d < each; ++d) o.devices.push_back({device_kind::cpu, d});
        if (samples) o.samples = samples(r);
        if (kind.at_worker) kind.at_worker(o);
        if (on_streamed) o.on_streamed = [&, r](const std::string& why) { on_streamed(r, why); };
        membership here(address, std::move(o));
        return here.wait();
      }));
    for (std::uint32_t h = 0; h < hosts; ++h)
      members.push_back(std::async(std::launch::async, [&, address] {
        const bool in_memory = address.starts_with("memory:");
        parameter_host_options o{.listen = in_memory ? "memory:" : "127.0.0.1:0"};
        if (kind.at_host) kind.at_host(o);
        parameter_host here(address, std::move(o));
        return here.wait();
      }));
  };
  training run(kind.model, kind.data, kind.options, serve);
  training_report report = run.report();
  EXPECT_EQ(report.ended, kind.ends) << report.why;
  EXPECT_TRUE(report.ledger.balances() || kind.ends != "completed") << to_string(report.ledger);
  if (kind.at_end) kind.at_end(run);
  for (auto& m : members) {
    const net::ending end = m.get();
    if (kind.words_of_ends.empty())
      EXPECT_EQ(end.reason, net::end_reason::left) << end.words;
    else
      EXPECT_NE(end.words.find(kind.words_of_ends), std::string::npos) << end.words;
  }
  return report;
}

/// The recording of a run is repeated bit for bit in one process, on these devices if they are others.
inline void expect_replayed(const kind_of_run& kind, const training_report& there,
                            const std::vector<device>& devices = {}) {
  training_options again = kind.options;
  again.replay = std::make_shared<const recording>(read_recording(std::exchange(again.record, "")));
  again.resume.reset();
  again.checkpoints = {};
  if (!devices.empty()) again.devices = devices;
  const training_report here = train(kind.model, kind.data, again);
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

inline kind_of_run with(
    std::string name, const std::string& policy, std::uint32_t workers,
    const std::function<void(training_options&)>& change = [](training_options&) {}) {
  kind_of_run kind{std::move(name), options_for(policy, workers)};
  change(kind.options);
  return kind;
}

inline kind_of_run by_memory(kind_of_run kind) {
  kind.name += "ByMemory";
  kind.listen = "memory:";
  return kind;
}

inline kind_of_run model(std::string name, const std::string& text, std::shared_ptr<const data_split> data) {
  kind_of_run kind{std::move(name), options_for("sync", 2), std::move(data), *built_in_model(text)};
  kind.options.epochs = 2;
  return kind;
}

/// Workers of two devices each, over which their model spans in this way.
inline kind_of_run spanning(kind_of_run kind, model_function over_devices) {
  kind.model = std::move(over_devices);
  kind.options.workers = static_cast<std::uint32_t>(kind.options.devices.size());
  kind.options.devices.clear();
  for (std::uint32_t d = 0; d < 2 * kind.options.workers; ++d)
    kind.options.devices.push_back({device_kind::cpu, d % 2});
  return kind;
}

/// Runs whose workers have two devices each; none if this machine has one.
inline std::vector<kind_of_run> spanning_kinds() {
  if (available_devices().size() < 2) return {};
  const auto micro = [](training_options& o) { o.micro_batches = 3; };
  kind_of_run tables = model("ReplicatedTables", "dlrm:width=4,bottom=6,top=8", mailgrad::testing::tastes());
  const model_function of_tables = tables.model;
  return {
      spanning(with("Pipeline", "sync", 2, micro), pipelined(small_model())),
      spanning(with("PipelineOfThreeShards", "sync", 2, [](training_options& o) { o.shards = 3; }),
               pipelined(small_model())),
      spanning(with("Replicated", "sync", 2), replicated(small_model())),
      spanning(with("ReplicatedShortLastBatch", "sync", 2, [](training_options& o) { o.batch = 7; }),
               replicated(small_model())),
      spanning(with("ReplicatedClipped", "sync", 2, [](training_options& o) { o.optimizer.clip_norm = 0.1; }),
               replicated(small_model())),
      spanning(std::move(tables), replicated(of_tables)),
      by_memory(spanning(with("Pipeline", "sync", 2, micro), pipelined(small_model()))),
      by_memory(spanning(with("Replicated", "sync", 2), replicated(small_model()))),
  };
}

/// Runs that end with the same bits each time, since one worker trains or a barrier orders them.
inline std::vector<kind_of_run> kinds() {
  const auto cured = [](const std::string& cure, const std::string& optimizer, std::uint64_t local_steps) {
    return [=](training_options& o) {
      o.cure = cure;
      o.optimizer = parse_optimizer(optimizer);
      o.optimizer.learning_rate = 0.05;
      o.local_steps = local_steps;
    };
  };
  std::vector<kind_of_run> all{
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
      by_memory(with("Sync", "sync", 2)),
      by_memory(with("ThreeShards", "sync", 2, [](training_options& o) { o.shards = 3; })),
      by_memory(with("LocalSteps", "sync", 2, cured("none", "adam", 2))),
      by_memory(model("LeNet", "lenet", mailgrad::testing::pictures())),
      by_memory(model("Gpt", "gpt:layers=2,width=8,heads=2,dropout=0.1", mailgrad::testing::text())),
  };
  std::ranges::move(spanning_kinds(), std::back_inserter(all));
  return all;
}

} // namespace mailgrad::remote
