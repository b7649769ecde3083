// Measures what the exchange between actors costs a step. A push to a real parameter actor and its answer,
// with an update of sixteen weights, is compared with a ping-pong of two bare CAF actors, in turns.

#include "measuring.hpp"

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/graph/graph.hpp>

#include <bit>
#include <future>
#include <string>

using namespace mailgrad;
using namespace mailgrad::bench;
using messaging::kill, messaging::on, messaging::send;

namespace {

constexpr int repetitions = 11;
constexpr int rounds = 50'000;
constexpr std::size_t floats = 16;

struct config : caf::actor_system_config {
  explicit config(std::size_t threads) {
    register_messages(*this);
    set(caf_compat::option("scheduler.max-threads"), threads);
  }
};

/// Counts round trips, and reports the time of one in microseconds.
class round_counter {
public:
  explicit round_counter(std::shared_ptr<std::promise<double>> result) : result_(std::move(result)) {}

  /// Counts one; true after the last.
  bool count() {
    if (done_ == 0) watch_ = {};
    if (done_++ < rounds) return false;
    result_->set_value(watch_.seconds() / rounds * 1e6);
    return true;
  }

private:
  std::shared_ptr<std::promise<double>> result_;
  stopwatch watch_;
  int done_ = 0;
};

/// Returns every ball.
class wall {
public:
  static constexpr const char* name = "wall";
  explicit wall(caf::event_based_actor*) {}
  caf::behavior make_behavior() {
    return {[](const next_batch& x) { return x; }};
  }
};

/// Plays against a wall.
class player {
public:
  static constexpr const char* name = "player";
  player(caf::event_based_actor* self, caf::actor other, std::shared_ptr<std::promise<double>> result)
      : self_(self), other_(std::move(other)), counter_(std::move(result)) {}

  caf::behavior make_behavior() {
    send(self_, other_, next_batch{});
    return {[this](const next_batch& x) {
      if (counter_.count()) return self_->quit();
      send(self_, other_, x);
    }};
  }

private:
  caf::event_based_actor* self_;
  caf::actor other_;
  round_counter counter_;
};

/// A worker without a model, which pushes the same gradient again and again.
class pusher {
public:
  static constexpr const char* name = "pusher";
  pusher(caf::event_based_actor* self, caf::actor shard, std::shared_ptr<std::promise<double>> result)
      : self_(self), shard_(std::move(shard)), counter_(std::move(result)) {
    auto g = std::make_shared<gradient>();
    g->dense = memory(block(floats * sizeof(float)));
    gradient_ = std::move(g);
  }

  caf::behavior make_behavior() {
    send(self_, shard_, join_shard{rank{0}, {}, caf::actor_cast<caf::actor>(self_)});
    return {on(self_, [this](const shard_weights& x) {
      if (counter_.count()) return self_->quit();
      send(self_, shard_,
           push_gradient{
               {{{}, rank{0}, {}, ++step_}, x.header.version, {}, std::bit_cast<std::uint32_t>(1.0F)},
               {gradient_}});
    })};
  }

private:
  caf::event_based_actor* self_;
  caf::actor shard_;
  round_counter counter_;
  std::shared_ptr<const gradient> gradient_;
  step_number step_;
};

double ping_pong(caf::actor_system& system) {
  auto result = std::make_shared<std::promise<double>>();
  const caf::actor other = mailgrad::messaging::spawn<wall>(system);
  mailgrad::messaging::spawn<player>(system, other, result);
  const double microseconds = result->get_future().get();
  kill(other);
  return microseconds;
}

double exchange(caf::actor_system& system) {
  graph g;
  g.variable("w", shape{floats}, initialiser::zeros());
  run_plan plan = plan_shards(std::make_shared<parameter_layout>(g, std::vector{false}, 1), {});
  run_crew_options options{std::make_shared<machine_time>()};
  options.roles = {.shards = true, .feeder = false, .coordinator = false, .workers = false};
  run_crew crew(system, std::move(plan), std::move(options));
  auto result = std::make_shared<std::promise<double>>();
  mailgrad::messaging::spawn<pusher>(system, crew.shards().front(), result);
  const double microseconds = result->get_future().get();
  crew.give_up();
  return microseconds;
}

void measure(std::size_t threads) {
  config options(threads);
  caf::actor_system system{options};
  std::vector<double> bare, exchanges, ratios;
  for (int r = -1; r < repetitions; ++r) {
    const double a = ping_pong(system);
    const double b = exchange(system);
    if (r < 0) continue;
    bare.push_back(a);
    exchanges.push_back(b);
    ratios.push_back(b / a);
  }
  const std::string where = threads == 1 ? ", 1 thread" : ", " + std::to_string(threads) + " threads";
  print(("ping-pong" + where).c_str(), bare, "us");
  print(("exchange" + where).c_str(), exchanges, "us");
  print(("exchange of ping-pong" + where).c_str(), ratios, "times");
}

} // namespace

int main() {
  measure(1);
  measure(2);
}
