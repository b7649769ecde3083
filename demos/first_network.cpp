// A network of two layers, trained by two device actors without waiting for each other; the README's first
// program.

#include <mailgrad/mailgrad.hpp>

#include <iostream>

using namespace mailgrad;

model_outputs two_layers(graph& g, const model_request& r) {
  const value images = g.input("features", {r.batch, 28, 28, 1});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  const value hidden = dense(flatten(images), 128, "hidden", activation::relu);
  const value logits = dense(hidden, r.classes, "logits");
  return {logits, cross_entropy(logits, labels)};
}

int main() {
  const training_report report =
      train(two_layers, fashion_mnist(),
            {.devices = cpus(2), .policy = "async", .optimizer = parse_optimizer("adam")});
  std::cout << "test accuracy  " << report.test_accuracy.value_or(0) << '\n'
            << "mean staleness " << report.staleness.mean() << '\n'
            << "gradients      " << to_string(report.ledger) << '\n';
}
