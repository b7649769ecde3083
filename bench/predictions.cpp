// Measures the predictions a second of the MLP 784-512-256-10 on one core: single pictures, and batches of
// 256, each on pictures of Fashion-MNIST, of which half the points are 0, and on pictures without a 0.
// bench/peers/predict.py is the peer.

#include "measuring.hpp"

#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/predictor.hpp>

#include <span>
#include <string>
#include <variant>
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

/// Answers `pictures`, `count` at a time, one batch after the other.
void measure(predictor& trained, const std::string& which, std::span<const float> pictures,
             std::size_t count) {
  const std::size_t each = count * trained.inputs();
  std::vector<float> answers(count * trained.outputs());
  std::vector<double> rates;
  std::size_t place = 0;
  for (int r = -1; r < repetitions; ++r) {
    const stopwatch watch;
    std::size_t done = 0;
    while (watch.seconds() < seconds_each) {
      for (int i = 0; i < 16; ++i) {
        trained.answers(pictures.subspan(place, each), answers);
        place = place + 2 * each <= pictures.size() ? place + each : 0;
      }
      done += 16 * count;
    }
    if (r >= 0) rates.push_back(static_cast<double>(done) / watch.seconds());
  }
  keep(answers);
  print((which + ", " + std::to_string(count) + " at a time").c_str(), rates, "a second");
}

/// The first test pictures, with the values of bytes.
std::vector<float> real_pictures(std::size_t count) {
  const data_split data = open_data("fashion-mnist");
  const auto& bytes = std::get<byte_features>(data.test.features()).values;
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count * data.test.sample_dims().size())};
}

} // namespace

int main() {
  predictor trained(drawn());
  constexpr std::size_t most = 2048;
  const std::vector<float> real = real_pictures(most);
  const std::vector<float> full(most * trained.inputs(), 100);
  for (const std::size_t count : {std::size_t{1}, std::size_t{256}}) {
    measure(trained, "pictures of Fashion-MNIST", real, count);
    measure(trained, "pictures without a 0", full, count);
  }
}
