#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>

namespace mailgrad {

/// Keeps what a model is built for.
void keep(archive& a, model_request& r);

/// The device of `now` that has the place of `d` among those of `then`; `d` itself if it has none.
device same_place(device d, const std::vector<device>& then, const std::vector<device>& now);

/// The graph that a model function builds for one request, as bytes (graph_bytes.hpp).
struct model_graph {
  model_request request;
  std::vector<std::byte> graph;
};

/// Builds the model for a request and writes its graph.
///
/// Errors  as build_model() and write_graph().
model_graph graph_for(const model_function& build, const model_request& request);

/// Whether one graph serves both requests: they are equal but for the names of their devices.
bool same_graph(const model_request& a, const model_request& b);

/// A model function without the code of a model: each call reads the graph that was written for its request.
///
/// A function may build another graph for another batch, worker, phase or seed. So a request must be one of
/// those that graphs are there for, but for the names of its devices: what was placed on the second device of
/// a request runs on the second device of the call.
///
/// Errors   std::invalid_argument for no graphs, or two of one request. A call throws graph_error, in one
///          line with both requests, if no graph fits; and what read_graph() throws.
/// Threads  calls from many threads.
model_function model_of(std::vector<model_graph> graphs, operation_registry known = {},
                        graph_limits limits = {});

/// Writes a request, with which another process may ask for a graph.
std::vector<std::byte> write_request(const model_request& request);

/// Errors  archive_error in one line if the bytes hold no request.
model_request read_request(std::span<const std::byte> bytes);

/// Writes the graphs of a model with their requests.
std::vector<std::byte> write_model(std::span<const model_graph> graphs);

/// Errors  archive_error in one line if the bytes hold no model. The graphs are not looked into.
std::vector<model_graph> read_model(std::span<const std::byte> bytes);

} // namespace mailgrad
