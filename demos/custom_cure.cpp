// A user's own cure of staleness, compiled into the program: `fading` compared with none, on three workers.
//
//   custom_cure [DATA]      fashion-mnist, or a folder or file that mailgrad train --data takes

#include "custom_cure.hpp"

#include <mailgrad/mailgrad.hpp>

#include <exception>
#include <iostream>

using namespace mailgrad;

int main(int argc, char** argv) {
  try {
    const shared_data data = open_data(argc > 1 ? argv[1] : "fashion-mnist");
    for (const std::string& cure : {custom_cure<fading>("0.9"), std::string("none")}) {
      training_options options;
      options.devices = cpus(3);
      options.batch = 16;
      options.epochs = 2;
      options.cure = cure;
      const training_report r = train(find_model("softmax"), data, options);
      std::cout << r.cure << ": " << r.ended << ", mean staleness " << r.staleness.mean()
                << ", a step counts " << r.mean_step_factor.value_or(1) << " on average\n";
      if (r.ended != "completed" || !r.ledger.balances()) return 1;
    }
  } catch (const std::exception& e) {
    std::cerr << "custom_cure: " << e.what() << '\n';
    return 2;
  }
}
