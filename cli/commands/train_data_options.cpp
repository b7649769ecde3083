#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <fmt/format.h>

// The options of `mailgrad train` that say what to train: a model, and on which data.

namespace mailgrad {
namespace {

constexpr std::uint64_t most_gibibytes = std::uint64_t{1} << 20;

} // namespace

void add_data_options(CLI::App& parser, train_words& w) {
  parser
      .add_option("--model", w.model,
                  fmt::format("The model: {}, with settings {}, or a JSON file of layers",
                              fmt::join(built_in_models(), ", "), where_listed(w)))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--data", w.data,
                  "The data set: fashion-mnist, or a folder or file of IDX, CIFAR, CSV or libsvm data, of "
                  "ratings, of text or of numpy's arrays, or a folder of PNG or JPEG pictures for each class")
      ->capture_default_str()
      ->group("What to train");
  auto* load =
      parser
          .add_option("--load", w.load,
                      "Begin with the weights of this safetensors or .npz file, in place of those that the "
                      "seed draws")
          ->check(file_name())
          ->type_name("FILE")
          ->group("What to train");
  parser
      .add_option(
          "--load-strict", w.load_strict,
          "Whether --load refuses weights that do not fit every variable; no takes those that fit, and "
          "lists the rest")
      ->check(one_of({"yes", "no"}))
      ->needs(load)
      ->type_name("yes|no")
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--task", w.task,
                  "What to learn from the labels: classification or regression; automatic takes what such "
                  "files usually hold")
      ->check(one_of({"automatic", "classification", "regression"}))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--window", w.window,
                  "For text: how many symbols the model reads at a time; it predicts the symbol after each")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--split", w.split,
                  "For ratings: the fifth of them to test on; random draws it, time takes the latest")
      ->check(one_of({"random", "time"}))
      ->capture_default_str()
      ->group("What to train");
  add_table(parser, w.table, "What to train");
  parser
      .add_option("--data-limit", w.data_limit,
                  "The most memory, in GiB, that the samples of a file may take; a packed or sparse file "
                  "takes many times its size")
      ->check(whole_number(1, most_gibibytes))
      ->capture_default_str()
      ->group("What to train");
  parser.add_option("--batch", w.batch, "Samples in a mini-batch of one worker")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  auto* epochs =
      parser.add_option("--epochs", w.epochs, "Passes over the training set by all workers together")
          ->check(whole_number(1))
          ->capture_default_str()
          ->group("What to train");
  parser.add_option("--steps", w.steps, "Mini-batches of all workers together, instead of --epochs")
      ->check(whole_number(1))
      ->excludes(epochs)
      ->group("What to train");
}

} // namespace mailgrad
