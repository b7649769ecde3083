// Measures the predictions a second of the MLP 784-512-256-10 on one core: single pictures, and batches of
// 256. bench/peers/predict.py is the peer.

#include "measuring.hpp"

#include <mailgrad/engine/model/model_layout.hpp>
#include <mailgrad/engine/weights/predictor.hpp>

#include <string>
#include <vector>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 9;
constexpr double seconds_each = 0.5;

saved_weights drawn() {
  saved_weights all{"drawn", {}};
  all.card.emplace();
  all.card->model = "mlp:hidden=512x256";
  all.card->request.sample_dims = {28, 28, 1};
  all.card->request.classes = 10;
  all.card->divisors = {255};
  const parameter_layout layout = lay_out(find_model(all.card->model), all.card->request, 1);
  const std::vector<float> values = first_weights(layout, 1);
  for (const named_weights& w : weights_by_name(layout, values)) {
    tensor copy(w.dims);
    std::ranges::copy(w.values, copy.values().begin());
    all.variables.push_back({w.name, std::move(copy)});
  }
  return all;
}

void measure(predictor& trained, std::size_t count) {
  const std::vector<float> pictures(count * trained.inputs(), 100);
  std::vector<float> answers(count * trained.outputs());
  std::vector<double> rates;
  for (int r = -1; r < repetitions; ++r) {
    const stopwatch watch;
    std::size_t done = 0;
    while (watch.seconds() < seconds_each) {
      for (int i = 0; i < 16; ++i) trained.answers(pictures, answers);
      done += 16 * count;
    }
    if (r >= 0) rates.push_back(static_cast<double>(done) / watch.seconds());
  }
  keep(answers);
  print(("pictures, " + std::to_string(count) + " at a time").c_str(), rates, "a second");
}

} // namespace

int main() {
  predictor trained(drawn());
  measure(trained, 1);
  measure(trained, 256);
}
