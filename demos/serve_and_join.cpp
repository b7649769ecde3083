// A run over processes in three calls: `training` with serve_options lets workers in, `membership` joins, and
// `leave` goes. Here both sides are in one program and meet over loopback; between machines only the address
// and the keys differ. Two workers begin, one leaves in mid-run, and another comes in its place. Then an
// actor of the program asks one of the workers what it has done, and watches the server from there.

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/mailgrad.hpp>

#include <cstdio>
#include <exception>
#include <future>
#include <random>

using namespace mailgrad;
using namespace std::chrono_literals;
using messaging::on, messaging::send, messaging::watch;

constexpr std::uint64_t enough = 300; // steps of a worker

/// Asks a worker for its books until it has trained enough, and waits for the end of the server.
class onlooker {
public:
  static constexpr const char* name = "demo.onlooker";

  onlooker(caf::event_based_actor* self, caf::actor worker, caf::actor server,
           std::promise<std::uint64_t>* steps, std::promise<void>* server_ended)
      : self_(self), worker_(std::move(worker)), server_(std::move(server)), steps_(steps),
        server_ended_(server_ended) {}

  caf::behavior make_behavior() {
    send(self_, worker_, copy_books{});
    watch(self_, server_, feeder_lost{});
    return {
        on(self_,
           [this](const worker_books& x) {
             if (x.so_far.steps < enough) return messaging::send_after(self_, 10ms, go_on{});
             steps_->set_value(x.so_far.steps);
           }),
        on(self_, [this](const go_on&) { send(self_, worker_, copy_books{}); }),
        on(self_,
           [this](const feeder_lost&) {
             server_ended_->set_value();
             self_->quit();
           }),
    };
  }

private:
  caf::event_based_actor* self_;
  caf::actor worker_, server_;
  std::promise<std::uint64_t>* steps_;
  std::promise<void>* server_ended_;
};

/// Points on y = 2x + 1.
dataset points(std::size_t count) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(count), y(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = uniform(random);
    y[i] = 2 * x[i] + 1;
  }
  return dataset::from(sample_array({count, 1}, std::move(x)), sample_array({count, 1}, std::move(y)));
}

model_outputs line(graph& g, const model_request& r) {
  const value guess = dense(g.input("features", {r.batch, 1}), 1, "line");
  return {guess, mean_squared_error(guess, g.input("labels", {r.batch, 1}))};
}

/// Waits for two workers, trains with them until it is stopped, and says where the line is at x = 0 and 1.
training_report serve(std::promise<std::string>& address, std::vector<float>& y) {
  training_options options;
  options.policy = "sync";
  options.optimizer.learning_rate = 0.1;
  options.steps = 1'000'000; // more than there is time for
  remote::serve_options listen;
  listen.workers = 2;
  listen.on_listening = [&](const std::string& where) { address.set_value(where); };
  listen.on_event = [](const std::string& words) { std::printf("server: %s\n", words.c_str()); };
  training run(line, data_split{points(1024), {}, "points", {}}, options, listen);
  training_report report = run.report();
  y = run.predict(sample_array({2, 1}, std::vector<float>{0, 1}));
  return report;
}

int main() try {
  std::promise<std::string> listening;
  std::vector<float> y;
  auto server = std::async(std::launch::async, [&] { return serve(listening, y); });
  const std::string address = listening.get_future().get();

  remote::membership stays = join(address);
  remote::membership leaves = join(address, {.number = 1});
  if (!stays.wait_for_begin(60s) || !leaves.wait_for_begin(60s)) return 1;

  leaves.leave();
  std::printf("%s: %s\n", leaves.name().c_str(), leaves.wait().words.c_str());
  remote::membership comes = join(address);
  if (!comes.wait_for_begin(60s)) return 1;

  const caf::actor worker = comes.worker();
  std::promise<std::uint64_t> steps;
  std::promise<void> server_ended;
  const caf::actor looks = // an actor without handles ends
      messaging::spawn<onlooker>(worker.home_system(), worker, comes.peers().coordinator, &steps,
                                 &server_ended);
  const bool has_trained = steps.get_future().get() >= enough;
  std::printf("%s has trained %s\n", comes.name().c_str(), has_trained ? "enough" : "too little");

  remote::watcher(address).ask("stop", "seen enough");
  const training_report report = server.get();
  server_ended.get_future().get();
  std::printf("%s, %s: y = %.2f x + %.2f\n", report.ended.c_str(), report.why.c_str(), double{y[1] - y[0]},
              double{y[0]});
  return report.ledger.balances() && stays.wait().reason == net::end_reason::left ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "serve_and_join: %s\n", e.what());
  return 2;
}
