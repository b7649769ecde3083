// A user's own parameter actor: it handles the messages of the protocol and owns its shard, in place of
// Mailgrad's. This one applies every gradient as it comes, and reports the staleness for each worker. First
// it checks that with one worker the result equals that of Mailgrad's own `async`, bit for bit.
//
//   own_parameter_actor [DATA]      fashion-mnist, or a folder or file that mailgrad train --data takes

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/own_parameter_actor.hpp>
#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/open.hpp>

#include <bit>
#include <exception>
#include <iostream>
#include <vector>

using namespace mailgrad;
using messaging::on, messaging::send;

/// Owns one shard; no worker ever waits.
///
///     serving --join_shard--> weights;  --push_gradient--> applied --> weights;  --report_shard--> report
class plain_parameter_actor {
public:
  static constexpr const char* name = "demo.plain-parameter-actor";

  plain_parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
      : self_(self), weights_(std::move(options.weights)), devices_(options.workers),
        accounts_(options.workers) {}

  caf::behavior make_behavior() {
    return {
        on(self_,
           [this](const join_shard& x) {
             devices_[x.worker.value] = x.device;
             answer(x.worker);
           }),
        on(self_, [this](const push_gradient& x) { take(x); }),
        on(self_, [this](const worker_left& x) { devices_[x.worker.value] = nullptr; }),
        on(self_,
           [this](const report_shard&) {
             return shard_report{weights_->index(), weights_->version(), accounts_, weights_->snapshot()};
           }),
        on(self_, [](const name_waits&) {}),
        on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  void take(const push_gradient& x) {
    const gradient_id id = x.header.id;
    worker_account& account = accounts_[id.worker.value];
    if (!devices_[id.worker.value] || id.step <= account.last_step) return; // left, or a repeat
    account.last_step = id.step;
    ++account.ledger.produced;
    account.gaps.count(weights_->version() - x.header.version_read);
    const contribution gradient{x.payload.values, std::bit_cast<float>(x.header.scale_bits)};
    weights_->update({&gradient, 1});
    ++account.ledger.applied;
    answer(id.worker);
  }

  void answer(rank worker) {
    shard_weights reply;
    reply.header.shard = weights_->index();
    reply.header.version = weights_->version();
    reply.payload.values = weights_->snapshot();
    send(self_, devices_[worker.value], reply);
  }

  caf::event_based_actor* self_;
  std::shared_ptr<shard> weights_;
  std::vector<caf::actor> devices_;      ///< by rank; null after the worker left
  std::vector<worker_account> accounts_; ///< by rank
};

training_report trained(const std::shared_ptr<const data_split>& data, std::size_t workers, bool own) {
  training_options options;
  options.devices.assign(workers, parse_device("cpu:0"));
  options.batch = 16;
  options.shards = 2;
  options.optimizer.learning_rate = 0.1;
  if (own) options.parameter_actor = make_own_parameter_actor<plain_parameter_actor>();
  return train(find_model("softmax"), data, options);
}

int main(int argc, char** argv) {
  try {
    const auto data = std::make_shared<data_split>(open_data(argc > 1 ? argv[1] : "fashion-mnist"));
    const bool same = trained(data, 1, true).parameters_sha256 == trained(data, 1, false).parameters_sha256;
    std::cout << "one worker: " << (same ? "the" : "NOT the") << " weights of Mailgrad's own actor\n";

    const training_report r = trained(data, 3, true);
    std::cout << r.policy << ": " << r.ended << ", mean staleness " << r.staleness.mean() << ", gradients "
              << to_string(r.ledger) << '\n';
    return same && r.ended == "completed" && r.ledger.balances() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << "own_parameter_actor: " << e.what() << '\n';
    return 2;
  }
}
