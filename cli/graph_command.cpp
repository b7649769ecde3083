#include <mailgrad/cli/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/whole_number.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

struct graph_words {
  std::string model = "mlp";
  std::vector<std::size_t> input{28, 28, 1};
  std::size_t classes = 10;
  std::size_t batch = 64;
  bool with_gradients = false;
  std::string output;
};

int draw(const graph_words& w) {
  model_request request;
  request.sample_dims = shape(std::span(w.input));
  request.classes = w.classes;
  request.batch = w.batch;
  graph g;
  const model_outputs outputs = find_model(w.model)(g, request);
  if (w.with_gradients) gradients(outputs.loss, g.variables());
  const std::string picture = graphviz(g, {.loss = outputs.loss});
  if (w.output.empty()) {
    std::cout << picture;
    return exit_code::done;
  }
  std::ofstream file(w.output);
  file << picture;
  file.close();
  if (!file)
    throw std::system_error(errno, std::generic_category(), "picture '" + w.output + "' cannot be written");
  return exit_code::done;
}

} // namespace

command make_graph_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("graph", "Draw a model's graph in the language of Graphviz");
  auto words = std::make_shared<graph_words>();
  parser
      ->add_option("--model", words->model,
                   "A built-in model, as 'mailgrad train --help' lists them, or a JSON file of layers")
      ->capture_default_str();
  parser->add_option("--input", words->input, "Extents of one sample, such as 28,28,1")
      ->delimiter(',')
      ->check(whole_number(1))
      ->capture_default_str();
  parser->add_option("--classes", words->classes, "Classes to tell apart")
      ->check(whole_number(1))
      ->capture_default_str();
  parser->add_option("--batch", words->batch, "Samples in a mini-batch")
      ->check(whole_number(1))
      ->capture_default_str();
  parser->add_flag("--gradients", words->with_gradients, "Draw the backward pass too");
  parser->add_option("--output", words->output, "File to write to; standard output by default");
  parser->footer("Example:\n  mailgrad graph --model lenet | dot -Tsvg > lenet.svg");
  return {parser, [words] { return draw(*words); }};
}

} // namespace mailgrad
