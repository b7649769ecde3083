#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace mailgrad {

void keep(archive& a, device& d) {
  a.choice("kind", d.kind, device_kind::cuda);
  a.field("index", d.index);
  if (d.kind == device_kind::cuda) a.field("lane", d.stream);
}

void keep(archive& a, input_request& r) {
  a.field("name", r.name);
  a.field("sample", r.sample);
}

/// The names for the members are complete, or this does not compile.
void keep(archive& a, model_request& r) {
  auto& [sample_dims, features, categories, inputs, wanted, target_dims, classes, batch, nonzeros, purpose,
         seed, devices, worker, workers] = r;
  a.version(1);
  a.field("sample dims", sample_dims);
  a.choice("features", features, feature_kind::tokens);
  a.field("categories", categories);
  a.field("inputs", inputs);
  a.choice("wanted", wanted, answer::a_number);
  a.field("target dims", target_dims);
  a.field("classes", classes);
  a.field("batch", batch);
  a.field("nonzeros", nonzeros);
  a.choice("purpose", purpose, phase::evaluation);
  a.field("seed", seed);
  a.field("devices", devices);
  a.field("worker", worker);
  a.field("workers", workers);
}

namespace {

/// The fields of a request in words, such as {"batch", "64"}. Requests with the same words get the same
/// model; devices count, but their names do not.
std::vector<std::pair<std::string, std::string>> format_fields(const model_request& r) {
  const auto& [sample_dims, features, categories, inputs, wanted, target_dims, classes, batch, nonzeros,
               purpose, seed, devices, worker, workers] = r;
  std::vector<std::string> named, places;
  for (const input_request& i : inputs) named.push_back(fmt::format("{} of {}", i.name, to_string(i.sample)));
  for (const device d : devices) // each by the first device that is the same
    places.push_back(std::to_string(std::ranges::find(devices, d) - devices.begin()));
  return {{"phase", purpose == phase::training ? "training" : "evaluation"},
          {"batch", std::to_string(batch)},
          {"worker", std::to_string(worker)},
          {"number of workers", std::to_string(workers)},
          {"devices", fmt::format("{} ({})", devices.size(), fmt::join(places, ", "))},
          {"seed", std::to_string(seed)},
          {"sample", to_string(sample_dims)},
          {"features", features == feature_kind::tokens ? "tokens" : "numbers"},
          {"categories", fmt::format("({})", fmt::join(categories, ", "))},
          {"inputs", fmt::format("({})", fmt::join(named, ", "))},
          {"answer", wanted == answer::a_class ? "a class" : "a number"},
          {"target", to_string(target_dims)},
          {"number of classes", std::to_string(classes)},
          {"nonzeros", std::to_string(nonzeros)}};
}

using fields = std::vector<std::pair<std::string, std::string>>;

constexpr seal request_seal{"mgradreq", 1, "model request"};
constexpr seal model_seal{"mgradmod", 1, "model"};

std::size_t differences(const fields& a, const fields& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

/// The graphs of a model, and what each was built for in words.
class library {
public:
  library(std::vector<model_graph> graphs, operation_registry known, const graph_limits& limits)
      : graphs_(std::move(graphs)), known_(std::move(known)), limits_(limits) {
    if (graphs_.empty()) throw std::invalid_argument("model_of: there are no graphs to make a model of");
    for (const model_graph& g : graphs_) {
      fields words = format_fields(g.request);
      if (std::ranges::find(built_for_, words) != built_for_.end())
        fail_with<std::invalid_argument>("model_of: graph {} was built for the same request as one before it",
                                         built_for_.size());
      built_for_.push_back(std::move(words));
    }
  }

  model_outputs build(graph& g, const model_request& request) const {
    const model_graph& found = graph_of(request);
    const named_values outputs = read_graph(g, found.graph, known_, limits_, [&](device d) {
      return same_place(d, found.request.devices, request.devices);
    });
    return {outputs.at("logits"), outputs.at("loss")};
  }

private:
  const model_graph& graph_of(const model_request& request) const {
    const fields wanted = format_fields(request);
    const auto nearest = std::ranges::min_element(
        built_for_, {}, [&](const fields& words) { return differences(words, wanted); });
    if (differences(*nearest, wanted) > 0) refuse(wanted, *nearest);
    return graphs_[static_cast<std::size_t>(nearest - built_for_.begin())];
  }

  [[noreturn]] static void refuse(const fields& wanted, const fields& nearest) {
    std::string asked, built;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == nearest[i]) continue;
      const char* comma = asked.empty() ? "" : ", ";
      asked += fmt::format("{}{} {}", comma, wanted[i].first, wanted[i].second);
      built += fmt::format("{}{} {}", comma, nearest[i].first, nearest[i].second);
    }
    fail_with<graph_error>("model: no graph of it was built for {}; the nearest was built for {}", asked,
                           built);
  }

  std::vector<model_graph> graphs_;
  std::vector<fields> built_for_;
  operation_registry known_;
  graph_limits limits_;
};

/// Reads a request and turns a shape that cannot be into the error of an archive.
void keep_request(archive& a, model_request& r) {
  try {
    keep(a, r);
  } catch (const shape_error& e) {
    fail_with<archive_error>("model request: {}", e.what());
  }
}

void keep_graphs(archive& a, std::vector<model_graph>& graphs) {
  a.version(1);
  std::uint64_t count = graphs.size();
  a.field("count", count);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (a.reads()) graphs.emplace_back();
    a.group(std::to_string(i), [&] {
      model_graph& g = graphs[i];
      std::string bytes(reinterpret_cast<const char*>(g.graph.data()), g.graph.size());
      a.group("request", [&] { keep_request(a, g.request); });
      a.field("graph", bytes);
      const auto read = std::as_bytes(std::span(bytes));
      if (a.reads()) g.graph.assign(read.begin(), read.end());
    });
  }
}

} // namespace

device same_place(device d, const std::vector<device>& then, const std::vector<device>& now) {
  const auto place = static_cast<std::size_t>(std::ranges::find(then, d) - then.begin());
  return place < std::min(then.size(), now.size()) ? now[place] : d;
}

model_graph graph_for(const model_function& build, const model_request& request) {
  graph g;
  const model_outputs made = build_model(build, g, request);
  return {request,
          write_graph(g, std::array{named_value{"logits", made.logits}, named_value{"loss", made.loss}})};
}

bool same_graph(const model_request& a, const model_request& b) {
  return format_fields(a) == format_fields(b);
}

model_function model_of(std::vector<model_graph> graphs, operation_registry known, graph_limits limits) {
  const auto all = std::make_shared<const library>(std::move(graphs), std::move(known), limits);
  return [all](graph& g, const model_request& request) { return all->build(g, request); };
}

std::vector<std::byte> write_request(const model_request& request) {
  byte_archive_writer to;
  model_request copy = request;
  keep(to, copy);
  return sealed(request_seal, to.bytes());
}

model_request read_request(std::span<const std::byte> bytes) {
  byte_archive_reader from(unsealed(request_seal, bytes), "model request");
  model_request request;
  keep_request(from, request);
  from.require_end();
  return request;
}

std::vector<std::byte> write_model(std::span<const model_graph> graphs) {
  byte_archive_writer to;
  std::vector<model_graph> copy(graphs.begin(), graphs.end());
  keep_graphs(to, copy);
  return sealed(model_seal, to.bytes());
}

std::vector<model_graph> read_model(std::span<const std::byte> bytes) {
  byte_archive_reader from(unsealed(model_seal, bytes), "model");
  std::vector<model_graph> graphs;
  keep_graphs(from, graphs);
  from.require_end();
  return graphs;
}

} // namespace mailgrad
