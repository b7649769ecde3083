#include <mailgrad/cli/commands/commands.hpp>
#include <mailgrad/cli/commands/table_words.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/output_file.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/cli/spanning_option.hpp>

#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/placement/placement.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace mailgrad {

namespace {

struct graph_words {
  std::string model = "mlp";
  std::vector<std::size_t> input{28, 28, 1};
  std::size_t classes = 10;
  std::size_t batch = 64;
  std::string data;
  table_words table;
  std::string devices;
  spanning_words span;
  bool with_gradients = false;
  std::string output{output_file::standard_output};
};

model_request request_of(const graph_words& w) {
  if (!w.data.empty()) {
    open_options o;
    apply(w.table, o);
    return request_for(open_data(w.data, o), w.batch);
  }
  model_request request;
  request.sample_dims = shape(std::span(w.input));
  request.classes = w.classes;
  request.batch = w.batch;
  return request;
}

/// Adds a hint to the error of a model that does not fit the default samples, which are images.
model_outputs built(const graph_words& w, graph& g, const model_request& request) {
  try {
    return spanning(find_model(w.model), w.span)(g, request);
  } catch (const graph_error& e) {
    if (!w.data.empty()) throw;
    throw graph_error(std::string(e.what()) + "; say what samples are like by --data, or --input");
  }
}

/// The values that a step of training fetches besides the loss.
std::vector<value> gradient_values(graph& g, const value& loss) {
  std::vector<value> values;
  for (const adjoint& a : gradients(loss, g.variables())) {
    if (a.dense) values.push_back(*a.dense);
    for (const sparse_rows& rows : a.sparse) values.insert(values.end(), {rows.rows, rows.values});
  }
  return values;
}

std::string picture_of(const graph_words& w) {
  model_request request = request_of(w);
  if (!w.devices.empty()) request.devices = read_devices(w.devices);
  if (w.span.any()) require_several(w.span, request.devices.size());
  graph g;
  const model_outputs outputs = built(w, g, request);
  std::vector<value> wanted;
  if (w.with_gradients) wanted = gradient_values(g, outputs.loss);
  const placement places(g, request.devices.front());
  require_devices(g, places, request.devices);
  const bool placed = !w.devices.empty();
  if (placed || w.with_gradients) wanted.push_back(outputs.loss);
  return graphviz(g, {.loss = outputs.loss, .places = placed ? &places : nullptr, .wanted = wanted});
}

int draw(const graph_words& w) {
  require_no_input("--output", w.output, files_of({w.model, w.data, {}, {}, {}}));
  const output_file output("picture", w.output);
  const std::string picture = picture_of(w);
  output.write([&](std::ostream& out) { out << picture; });
  return exit_code::done;
}

} // namespace

command make_graph_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("graph", "Draw a model's graph in the language of Graphviz");
  auto words = std::make_shared<graph_words>();
  parser
      ->add_option("--model", words->model,
                   "A built-in model, which 'mailgrad train --help' lists, or a JSON file of layers")
      ->capture_default_str();
  parser->add_option("--input", words->input, "Shape of one sample, such as 28,28,1")
      ->delimiter(',')
      ->check(whole_number(1))
      ->capture_default_str();
  parser->add_option("--classes", words->classes, "Number of classes")
      ->check(whole_number(1))
      ->capture_default_str();
  parser->add_option("--batch", words->batch, "Samples in a mini-batch")
      ->check(whole_number(1))
      ->capture_default_str();
  auto* data = parser->add_option("--data", words->data,
                                  "Data set that the model reads, in place of --input and --classes");
  data->excludes("--input")->excludes("--classes");
  add_table(*parser, words->table, "How the data set is read");
  auto* devices = parser->add_option(
      "--devices", words->devices,
      "Draw what a training step computes on these devices, such as cpu:0,cpu:1: a box for each "
      "device, and the values that go from one to another");
  add_spanning_flags(*parser, words->span, "Models over several devices");
  for (const char* flag : {"--replicate", "--pipeline"}) parser->get_option(flag)->needs(devices);
  parser
      ->add_flag("--gradients", words->with_gradients,
                 "Draw the backward pass too, and leave out what no training step computes")
      ->disable_flag_override();
  parser->add_option("--output", words->output, "File to write to; -: standard output")
      ->check(file_name())
      ->type_name("FILE")
      ->capture_default_str();
  parser->footer(
      "Examples:\n  mailgrad graph --model lenet | dot -Tsvg > lenet.svg\n"
      "  mailgrad graph --model mlp --devices cpu:0,cpu:1 --pipeline --gradients | dot -Tsvg > pipeline.svg");
  return {parser, [words] { return draw(*words); }};
}

} // namespace mailgrad
