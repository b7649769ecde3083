// A user's own update rule, compiled into the program: Signum compared with plain SGD, on two workers that do
// not wait for each other.
//
//   custom_rule [DATA]      fashion-mnist, or a folder or file that mailgrad train --data takes

#include <mailgrad/mailgrad.hpp>
#include <mailgrad/optim/plugin.hpp>

#include <exception>
#include <iostream>

using namespace mailgrad;

/// Moves each weight by the learning rate, against the sign of its momentum.
///
/// Source  Bernstein, Wang, Azizzadenesheli & Anandkumar, "signSGD", ICML 2018, Algorithm 2,
///         arXiv:1802.04434.
struct signum {
  static constexpr const char* name = "signum";
  static constexpr std::size_t states = 1;
  static constexpr mailgrad_rule_setting settings[] = {{"momentum", 0.9, 0, 1}};

  float learning_rate, momentum;

  void operator()(float& w, float g, float& m) const {
    m = momentum * m + (1 - momentum) * g;
    w -= learning_rate * static_cast<float>((m > 0) - (m < 0));
  }
};

training_report trained(const shared_data& data, optimizer_options optimizer) {
  training_options options;
  options.devices = cpus(2);
  options.batch = 16;
  options.epochs = 2;
  options.optimizer = std::move(optimizer);
  return train(find_model("softmax"), data, options);
}

int main(int argc, char** argv) {
  try {
    const shared_data data = open_data(argc > 1 ? argv[1] : "fashion-mnist");
    const optimizer_options rules[] = {
        {.rule = make_custom_rule(rule_table<signum>), .learning_rate = 0.001},
        {.rule = sgd_options{}, .learning_rate = 0.1},
    };
    for (const optimizer_options& rule : rules) {
      const training_report r = trained(data, rule);
      std::cout << r.optimizer << ": " << r.ended << ", test accuracy " << r.test_accuracy.value_or(0)
                << ", gradients " << to_string(r.ledger) << '\n';
      if (r.ended != "completed" || !r.ledger.balances()) return 1;
    }
  } catch (const std::exception& e) {
    std::cerr << "custom_rule: " << e.what() << '\n';
    return 2;
  }
}
