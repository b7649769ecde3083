// A user's own policy, compiled into the program: `fair_turns` compared with async, on three workers.
//
//   custom_policy [DATA]      fashion-mnist, or a folder or file that mailgrad train --data takes

#include "custom_policy.hpp"

#include <mailgrad/mailgrad.hpp>

#include <exception>
#include <iostream>

using namespace mailgrad;

int main(int argc, char** argv) {
  try {
    const shared_data data = open_data(argc > 1 ? argv[1] : "fashion-mnist");
    for (const std::string& policy : {custom_policy<fair_turns>("1"), std::string("async")}) {
      training_options options;
      options.devices = cpus(3);
      options.batch = 16;
      options.epochs = 2;
      options.policy = policy;
      const training_report r = train(find_model("softmax"), data, options);
      std::cout << r.policy << ": " << r.ended << ", mean staleness " << r.staleness.mean() << ", gradients "
                << to_string(r.ledger) << '\n';
      if (r.ended != "completed" || !r.ledger.balances()) return 1;
    }
  } catch (const std::exception& e) {
    std::cerr << "custom_policy: " << e.what() << '\n';
    return 2;
  }
}
