// A custom parameter actor, which decides what becomes of each gradient in place of Mailgrad's. This one
// applies every gradient as it comes. First the program checks that with one worker the result equals that
// of Mailgrad's own `async`, bit for bit.
//
//   custom_parameter_actor [DATA]      fashion-mnist, or a folder or file that mailgrad train --data takes

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/mailgrad.hpp>

#include <exception>
#include <iostream>

using namespace mailgrad;

/// Applies every gradient as it comes; no worker ever waits.
class plain_parameter_actor : public custom_parameter_actor {
public:
  static constexpr const char* name = "demo.plain-parameter-actor";
  using custom_parameter_actor::custom_parameter_actor;

private:
  void on_gradient(const push_gradient& x) override {
    apply(x);
    send_weights(x.header.id.worker);
  }
};

training_report trained(const shared_data& data, std::uint32_t workers, bool own) {
  training_options options;
  options.devices = cpus(workers);
  options.batch = 16;
  options.shards = 2;
  options.optimizer.learning_rate = 0.1;
  if (own) options.parameter_actor = make_custom_parameter_actor<plain_parameter_actor>();
  return train(find_model("softmax"), data, options);
}

int main(int argc, char** argv) {
  try {
    const shared_data data = open_data(argc > 1 ? argv[1] : "fashion-mnist");
    const bool same = trained(data, 1, true).parameters_sha256 == trained(data, 1, false).parameters_sha256;
    std::cout << "one worker: " << (same ? "the" : "NOT the") << " weights of Mailgrad's own actor\n";

    const training_report r = trained(data, 3, true);
    std::cout << r.policy << ": " << r.ended << ", mean staleness " << r.staleness.mean() << ", gradients "
              << to_string(r.ledger) << '\n';
    return same && r.ended == "completed" && r.ledger.balances() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << "custom_parameter_actor: " << e.what() << '\n';
    return 2;
  }
}
