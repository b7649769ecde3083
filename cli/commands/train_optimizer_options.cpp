#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/cli/option_checks.hpp>

#include <fmt/format.h>

#include <limits>

// The options of `mailgrad train` that say how the weights are updated: by the shards, and by workers that
// take local steps.

namespace mailgrad {
namespace {

constexpr double most_rate = std::numeric_limits<float>::max();

} // namespace

void add_optimizer_options(CLI::App& parser, train_words& w) {
  parser
      .add_option(
          "--optimizer", w.optimizer,
          fmt::format(
              "The update rule: {}, or a plug-in such as ./libmine.so; with settings: "
              "adam:beta1=0.8,epsilon=1e-6; lars, lamb, muon and shampoo look at whole variables, so shards "
              "are cut between these",
              fmt::join(optimizer_names(), ", ")))
      ->capture_default_str()
      ->group("Optimiser");
  parser
      .add_option("--lr", w.learning_rate,
                  "Learning rate; by default that of the optimiser, " + where_listed(w))
      ->check(number())
      ->check(number(0, most_rate))
      ->group("Optimiser");
  parser
      .add_option("--schedule", w.schedule,
                  "How the learning rate changes: constant, step:every=500,factor=0.1 or "
                  "cosine:total=1000,warmup=100")
      ->capture_default_str()
      ->group("Optimiser");
  parser
      .add_option("--weight-decay", w.weight_decay,
                  "Decoupled weight decay: in each step the weights shrink by the fraction lr * X")
      ->check(number())
      ->group("Optimiser");
  parser.add_option("--l2", w.l2, "L2 penalty in the loss: the gradient grows by X * weights")
      ->check(number())
      ->group("Optimiser");
  parser
      .add_option("--clip-norm", w.clip_norm,
                  "The largest global norm of a worker's gradient; a larger one is scaled down; 0: no limit")
      ->check(number())
      ->group("Optimiser");
}

void add_local_step_options(CLI::App& parser, train_words& w) {
  auto* steps =
      parser
          .add_option(
              "--local-steps", w.local_steps,
              "Steps that each worker takes on its own weights before it sends their change to the shards")
          ->check(whole_number(1))
          ->group("Local steps");
  parser
      .add_option(
          "--outer-optimizer", w.outer_optimizer,
          "The optimiser of the shards, which takes such changes as gradients; --optimizer is then that of "
          "the workers. For DiLoCo take nesterov; for workers that do not wait, delayed-nesterov:period=N")
      ->capture_default_str()
      ->needs(steps)
      ->group("Local steps");
  parser
      .add_option("--outer-lr", w.outer_learning_rate,
                  "Learning rate of the outer optimiser; by default " + where_listed(w) +
                      ", but 1 for sgd, which averages the models")
      ->check(number())
      ->check(number(0, most_rate))
      ->needs(steps)
      ->group("Local steps");
}

} // namespace mailgrad
