#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>

// The timelines of whole runs, one message at a time, on a clock that goes on whenever it is read.

namespace mailgrad::testing {

/// Says of every second checkpoint that it has failed.
class failing_writer {
public:
  static constexpr const char* name = "mailgrad.failing-writer";

  explicit failing_writer(caf::event_based_actor* self) : self_(self) {}

  caf::behavior make_behavior() {
    return {
        messaging::on(self_,
                      [](const write_checkpoint& x) {
                        const std::string why = x.number % 2 == 0 ? "the disk is full" : "";
                        return checkpoint_written{x.number, x.steps, "a file", why, 1234, 0};
                      }),
        messaging::on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  caf::event_based_actor* self_;
};

/// A run to its end in a drawn order, and its timeline.
class traced_run {
public:
  traced_run(const assembly& a, drawn_order order) : assembly_(a) {
    system_.deliver(order);
    trace = trace_of(run_.outcome(), instant{0}, instant{0});
  }
  ~traced_run() {
    if (assembly_.checkpoint_writer) messaging::kill(assembly_.checkpoint_writer);
  }
  traced_run(const traced_run&) = delete;
  traced_run& operator=(const traced_run&) = delete;

  const run_outcome& outcome() const { return run_.outcome(); }
  std::map<trace_kind, std::uint64_t> kinds(const trace_track& t) const {
    std::map<trace_kind, std::uint64_t> found;
    for (const trace_event& e : t.events()) ++found[e.what];
    return found;
  }
  const trace_track& worker(std::uint32_t r) const { return *trace.tracks[r]; }
  const trace_track& feeder() const { return *trace.tracks.back(); }
  const trace_track& shard(std::uint32_t s) const { return *trace.tracks[assembly_.workers + s]; }

  run_trace trace;

private:
  const assembly& with_writer() {
    if (assembly_.checkpoint_every > 0)
      assembly_.checkpoint_writer = messaging::spawn<failing_writer>(system_.actors());
    return assembly_;
  }

  assembly assembly_;
  deterministic_system system_;
  assembled_run run_{system_.actors(), with_writer(), small_data(), std::make_shared<ticking_time>()};
};

inline assembly traced(const std::string& policy) {
  assembly a;
  a.policy = policy;
  a.batches = 30;
  a.trace_events = 10'000;
  return a;
}

/// What all workers of some runs did and waited for.
inline std::set<trace_kind> waits_under(const std::string& policy, std::uint64_t checkpoint_every = 0) {
  std::set<trace_kind> found;
  for (const drawn_order& order : drawn_orders(10)) {
    assembly a = traced(policy);
    a.checkpoint_every = checkpoint_every;
    const traced_run run(a, order);
    for (std::uint32_t r = 0; r < a.workers; ++r)
      for (const auto& [kind, count] : run.kinds(run.worker(r))) found.insert(kind);
  }
  return found;
}

} // namespace mailgrad::testing
