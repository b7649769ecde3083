#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::remote {

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
  training_report report() { return ended_.get(); }
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

} // namespace mailgrad::remote
