#include <mailgrad/engine/plan/worker_terms.hpp>

#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>

#include <set>
#include <span>
#include <utility>

namespace mailgrad {

namespace {

void keep_local(archive& a, std::optional<local_steps_options>& local) {
  bool present = local.has_value();
  a.field("steps locally", present);
  if (!present) return local.reset();
  if (!local) local.emplace();
  a.group("local steps", [&] {
    a.field("steps", local->steps);
    keep_optimizer(a, "optimizer", local->optimizer);
    a.field("pull", local->pull);
  });
}

} // namespace

void worker_terms::keep(archive& a) {
  a.version(5);
  a.field("run", run);
  a.field("worker", worker);
  a.field("incarnation", incarnation);
  a.field("late", late);
  a.field("request", request);
  keep_layout(a, "layout", layout);
  keep_layout(a, "replica layout", replica_layout);
  keep_local(a, local);
  a.field("clip norm", clip_norm);
  a.field("sample gap", sample_gap);
  a.field("micro batches", micro_batches);
  a.field("sums apart", sums_apart);
  a.field("keeps end", keeps_end);
  a.field("trace events", trace_events);
  keep_nested(a, "resumed", resumed);
  std::string of_products(name(products));
  a.field("products", of_products);
  products = parse_product_precision(of_products);
  a.field("wire", wire);
  a.field("all reduce", all_reduce);
  a.field("shard hosts", shard_hosts);
  a.field("data", data);
}

worker_terms terms_of(const run_plan& plan, rank worker, incarnation_number incarnation, bool late) {
  const training_options& o = plan.options;
  worker_terms t;
  t.run = plan.run;
  t.worker = worker;
  t.incarnation = incarnation;
  t.late = late;
  t.request = plan.request_of(worker.value);
  t.layout = plan.layout;
  t.replica_layout = plan.replica_layout;
  if (o.local_steps > 0) t.local = local_steps_options{o.local_steps, o.optimizer, plan.cure.traits().pull};
  t.clip_norm = o.optimizer.clip_norm;
  t.sample_gap = o.sample_gap;
  t.micro_batches = o.micro_batches;
  t.sums_apart = plan.sums_apart;
  t.keeps_end = plan.keeps_end();
  t.trace_events = o.trace_events;
  t.products = o.precision;
  t.all_reduce = o.all_reduce;
  if (plan.resumed && !late) t.resumed = plan.resumed->worker(worker.value);
  return t;
}

std::string write_terms(const run_plan& plan, const worker_terms& terms) {
  worker_terms told = terms;
  // What a lossy format lacks of a sum is kept at the worker, which therefore has to have the sum.
  if (is_lossy(parse_wire_format(told.wire))) told.sums_apart = false;
  std::set<std::size_t> sizes;
  const auto add_sizes = [&](std::size_t batch) {
    const std::vector<std::size_t> parts = batch_parts(batch, told.micro_batches);
    sizes.insert(parts.begin(), parts.end());
  };
  add_sizes(plan.options.batch);
  if (const std::size_t rest = plan.data->train.size() % plan.options.batch; rest > 0) add_sizes(rest);
  std::vector<model_graph> graphs;
  for (const std::size_t size : sizes) {
    model_request r = told.request;
    r.batch = size;
    graphs.push_back(graph_for(plan.model, r));
  }
  const std::vector<std::byte> model = write_model(graphs);
  std::string text(reinterpret_cast<const char*>(model.data()), model.size());
  byte_archive_writer a;
  a.field("terms", told);
  a.field("model", text);
  return a.bytes();
}

given_terms read_terms(std::string_view bytes, operation_registry known, const known_plugins& plugins) {
  byte_archive_reader a(bytes, "terms");
  given_terms told;
  std::string model;
  a.field("terms", told.terms);
  a.field("model", model);
  a.require_end();
  if (told.terms.local) plugins.complete(told.terms.local->optimizer);
  told.model = model_of(read_model(std::as_bytes(std::span(model))), std::move(known));
  return told;
}

} // namespace mailgrad
