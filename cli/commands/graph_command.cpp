#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/program.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/graphviz.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>

namespace mailgrad {

namespace {

/// Reads a file that `mailgrad graph --out` or a program by write_graph() has written. Nothing in it is
/// executed. Returns what the graph names.
///
/// Errors  file_error in one line: the file cannot be read, is cut, damaged or no graph, or has an operation
///         that this build does not know.
named_values read_graph_file(graph& into, const std::string& path) {
  byte_source file(path);
  const std::vector<std::uint8_t> bytes = read_up_to(file, byte_source::most_bytes);
  try {
    return read_graph(into, std::as_bytes(std::span(bytes)), operation_registry());
  } catch (const archive_error& e) {
    throw_malformed(path, e.what());
  } catch (const graph_error& e) {
    throw_malformed(path, e.what());
  }
}

void write_graph_to(std::ostream& out, const graph& g, const std::vector<named_value>& named) {
  const std::vector<std::byte> bytes = write_graph(g, named);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::optional<value> find_value(const std::vector<named_value>& named, std::string_view name) {
  const auto found = std::ranges::find(named, name, &named_value::name);
  return found == named.end() ? std::nullopt : std::optional(found->what);
}

struct graph_args {
  std::string model = "mlp";
  std::vector<std::size_t> input{28, 28, 1};
  std::size_t classes = 10;
  std::size_t batch = 64;
  std::string data;
  table_args table;
  std::string devices;
  spanning_args span;
  bool with_gradients = false;
  std::string output{output_file::standard_output};
  std::string out;  ///< for the graph itself, in place of the picture
  std::string file; ///< a graph to read, in place of a model
};

constexpr const char* loss_name = "loss";
constexpr const char* logits_name = "logits";
constexpr std::string_view gradient_prefix = "gradient of ";

model_request request_of(const graph_args& w) {
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
model_outputs built(const graph_args& w, graph& g, const model_request& request) {
  try {
    return spanning(find_model(w.model), w.span)(g, request);
  } catch (const graph_error& e) {
    if (!w.data.empty()) throw;
    throw graph_error(std::string(e.what()) + "; say what samples are like by --data, or --input");
  }
}

/// The values that a step of training fetches besides the loss, each named after its variable.
void add_gradients(graph& g, const value& loss, std::vector<named_value>& to) {
  const std::vector<value> variables = g.variables();
  const std::vector<adjoint> all = gradients(loss, variables);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = std::string(gradient_prefix) + g.of(variables[i]).name;
    if (all[i].dense) to.push_back({name, *all[i].dense});
    for (std::size_t s = 0; s < all[i].sparse.size(); ++s) {
      const std::string part = fmt::format("{}, part {}", name, s);
      to.push_back({part + ", rows", all[i].sparse[s].rows});
      to.push_back({part + ", values", all[i].sparse[s].values});
    }
  }
}

bool names_gradients(const std::vector<named_value>& named) {
  return std::ranges::any_of(named, [](const named_value& v) { return v.name.starts_with(gradient_prefix); });
}

std::vector<named_value> make_graph(const graph_args& w, graph& g, const model_request& request) {
  std::vector<named_value> named;
  if (w.file.empty()) {
    const model_outputs outputs = built(w, g, request);
    named = {{logits_name, outputs.logits}, {loss_name, outputs.loss}};
  } else {
    named = read_graph_file(g, w.file).all();
  }
  if (!w.with_gradients || names_gradients(named)) return named;
  const std::optional<value> loss = find_value(named, loss_name);
  if (!loss) throw std::invalid_argument("--gradients: the graph of '" + w.file + "' names no loss");
  add_gradients(g, *loss, named);
  return named;
}

model_request requested(const graph_args& w) {
  model_request request = w.file.empty() ? request_of(w) : model_request{};
  if (!w.devices.empty()) request.devices = read_devices(w.devices);
  if (w.span.any()) require_several(w.span, request.devices.size());
  return request;
}

std::string picture_of(const graph_args& w, const graph& g, const std::vector<named_value>& named,
                       const model_request& request) {
  const placement places(g, request.devices.front());
  require_devices(g, places, request.devices);
  const bool placed = !w.devices.empty();
  std::vector<value> wanted;
  for (const named_value& v : named)
    if (v.name == loss_name ? placed || w.with_gradients
                            : v.name.starts_with(gradient_prefix) && w.with_gradients)
      wanted.push_back(v.what);
  return graphviz(
      g, {.loss = find_value(named, loss_name), .places = placed ? &places : nullptr, .wanted = wanted});
}

int show(const graph_args& w) {
  const bool as_it_is = !w.out.empty();
  std::vector<input_file> read = files_of({w.file.empty() ? w.model : w.file, w.data, {}, {}, {}});
  require_no_input(as_it_is ? "--out" : "--output", as_it_is ? w.out : w.output, read);
  const output_file output(as_it_is ? "graph" : "picture", as_it_is ? w.out : w.output);
  const model_request request = requested(w);
  graph g;
  const std::vector<named_value> named = make_graph(w, g, request);
  const std::string picture = as_it_is ? std::string() : picture_of(w, g, named, request);
  output.write([&](std::ostream& out) { as_it_is ? write_graph_to(out, g, named) : void(out << picture); });
  return exit_code::done;
}

} // namespace

command make_graph_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("graph", "Draw a model's graph in the language of Graphviz");
  auto words = std::make_shared<graph_args>();
  option_table t(*parser);
  t.add("file", words->file, path("FILE"),
        "A graph that --out or a program has written, in place of a model");
  t.add("--model", words->model, shown,
        "A built-in model, which 'mailgrad train --help' lists, or a JSON file of layers");
  t.add(
      "--input", words->input, [](CLI::App&, CLI::Option& o) { o.delimiter(','); }, whole_number(1), shown,
      "Shape of one sample, such as 28,28,1");
  t.add("--classes", words->classes, whole_number(1), shown, "Number of classes");
  t.add("--batch", words->batch, whole_number(1), shown, "Samples in a mini-batch");
  t.add("--data", words->data, excludes("--input"), excludes("--classes"),
        "Data set that the model reads, in place of --input and --classes");
  t.title("How the data set is read");
  add_table(t, words->table);
  t.title();
  t.add("--devices", words->devices,
        "Draw what a training step computes on these devices, such as cpu:0,cpu:1, or streams of a GPU, "
        "cuda:0,cuda:0/1: a box for each device, and the values that go from one to another");
  add_spanning(t, words->span);
  t.title();
  for (const char* flag : {"--replicate", "--pipeline"}) parser->get_option(flag)->needs("--devices");
  t.add("--gradients", words->with_gradients,
        "Draw the backward pass too, and leave out what no training step computes");
  t.add("--output", words->output, path("FILE"), shown, "File to write the picture to; -: standard output");
  t.add("--out", words->out, path("FILE"), excludes("--output"),
        "Write the graph itself to this file in place of a picture, as bytes that another process reads; -: "
        "standard output");
  for (const char* of_a_model :
       {"--model", "--input", "--classes", "--batch", "--data", "--replicate", "--pipeline"})
    parser->get_option("file")->excludes(of_a_model);
  parser->footer(
      "Examples:\n  mailgrad graph --model lenet | dot -Tsvg > lenet.svg\n"
      "  mailgrad graph --model mlp --devices cpu:0,cpu:1 --pipeline --gradients | dot -Tsvg > pipeline.svg\n"
      "  mailgrad graph --model lenet --out lenet.graph\n"
      "  mailgrad graph lenet.graph | dot -Tsvg > lenet.svg");
  return {parser, [words] { return show(*words); }};
}

} // namespace mailgrad
