// compare_rules PLUGIN DATA: whether a plug-in with the formula of SGD makes the weights of the built-in one,
// bit for bit, under every policy whose weights do not depend on who is how fast.
#include <mailgrad/actors/training.hpp>
#include <mailgrad/data/open.hpp>

#include <cstdio>
#include <string>

using namespace mailgrad;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto data = std::make_shared<data_split>(open_data(argv[2]));
  struct run {
    const char* policy;
    std::size_t workers;
    std::uint32_t shards;
  };
  bool all_same = true;
  for (const run& r : {run{"async", 1, 1}, run{"hogwild", 1, 1}, run{"sync", 2, 1}, run{"sync", 3, 2}}) {
    std::string hashes[2];
    for (const int own : {0, 1}) {
      training_options options;
      options.policy = r.policy;
      options.devices.assign(r.workers, parse_device("cpu:0"));
      options.shards = r.shards;
      options.batch = 4;
      options.epochs = 3;
      options.optimizer = parse_optimizer(own == 1 ? argv[1] : "sgd");
      options.optimizer.learning_rate = 0.1;
      hashes[own] = train(find_model("softmax"), data, options).parameters_sha256;
    }
    const bool same = !hashes[0].empty() && hashes[0] == hashes[1];
    std::printf("%s, %zu workers, %u shards: %s\n", r.policy, r.workers, r.shards,
                same ? "same" : "DIFFERENT");
    all_same = all_same && same;
  }
  return all_same ? 0 : 1;
}
