// Uses a trained model: no actor, no thread and no data set, only the file.
//
//   mailgrad train --model mlp --save mlp.safetensors
//   use_trained mlp.safetensors < picture       the numbers of one sample, between blanks

#include <mailgrad/engine/weights/predictor.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace mailgrad;

std::vector<float> numbers_of(std::istream& in) {
  std::vector<float> numbers;
  for (float number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

/// The three likeliest classes, the likeliest first.
void print_likeliest(const predictor& trained, const std::vector<float>& chances) {
  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, std::greater(), [&](std::size_t c) { return chances[c]; });
  order.resize(std::min<std::size_t>(3, order.size()));
  for (const std::size_t c : order) {
    const auto& names = trained.card().class_names;
    std::printf("%6.2f %%  %s\n", static_cast<double>(100 * chances[c]),
                names.empty() ? std::to_string(c).c_str() : names[c].c_str());
  }
}

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("name the file of a trained model");
    predictor trained(load_weights(argv[1]));
    const std::vector<float> sample = numbers_of(std::cin);
    std::vector<float> chances(trained.outputs());
    trained.probabilities(sample, chances);
    print_likeliest(trained, chances);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "use_trained: %s\n", e.what());
    return 1;
  }
}
