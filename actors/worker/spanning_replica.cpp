#include <mailgrad/actors/worker/spanning_replica.hpp>

#include <mailgrad/graph/placement/replicate.hpp>

namespace mailgrad {

using messaging::on, messaging::send, messaging::watch;

namespace {

/// Whether all shards, or any, are on the GPU of the stages.
bool is_near(const spanning_replica::options& o, bool all) {
  const std::vector<bool> near = o.weights.on_gpu_by_shard(o.layout->shard_count());
  return std::ranges::count(near, !all) == 0 ? all : !all;
}

} // namespace

spanning_replica::spanning_replica(options o)
    : options_(std::move(o)), weights_(options_.layout->shard_count()), all_near_(is_near(options_, true)),
      any_near_(is_near(options_, false)), parts_([] { return std::make_shared<batch>(); }),
      rows_([] { return std::make_shared<row_memory>(); }), sums_(options_.devices.size()),
      busy_(options_.devices.size(), 0) {
  options_.traces.resize(options_.devices.size());
  if (any_near_) beside_ = std::make_unique<cuda::copy_stream>(options_.devices.front().index);
}

caf::message_handler spanning_replica::hear(caf::event_based_actor* worker) {
  self_ = worker;
  for (std::size_t p = 0; p < options_.stages.size(); ++p) watch(self_, options_.stages[p], stage_lost{p});
  return {
      on(self_, [this](const step_computed& x) { take(x); }),
      on(self_,
         [this](const stage_failed& x) {
           options_.traces[x.stage] = x.trace;
           if (broken_.empty()) by_device_ = x.by_device;
           break_off(x.stage, "failed: " + x.why);
         }),
      on(self_,
         [this](const stage_lost& x) {
           break_off(x.stage, "is gone" + (x.why.empty() ? "" : ": " + x.why));
         }),
  };
}

std::shared_ptr<gradient> spanning_replica::make_gradient() const {
  if (!any_near_) return mailgrad::make_gradient(*options_.layout, options_.blocks);
  memory there = naming_memory("a gradient of a worker", [this] {
    return beside_->allocate(options_.layout->dense_size() * sizeof(float));
  });
  const auto made =
      all_near_ ? std::make_shared<gradient>() : mailgrad::make_gradient(*options_.layout, options_.blocks);
  (all_near_ ? made->dense : made->on_gpu) = std::move(there);
  made->gpu = options_.devices.front().index;
  made->ready = beside_->record();
  return made;
}

step_state spanning_replica::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  auto work = std::make_shared<step_work>();
  work->step = ++step_;
  work->weights = weights_;
  work->racing = racing();
  work->into = out;
  work->stages = options_.stages;
  split(inputs, *work);
  out->source = std::move(inputs);
  out->sparse.clear();
  out->sparse_on_gpu.clear();
  out->held.clear();
  if (options_.sums_apart) out->addends.resize(options_.stages.size());
  for (const micro_batch& m : work->micro_batches) out->held.push_back(m.samples);
  for (weight_view& w : weights_) { // so that the shards may update in place after the step
    w.owner.reset();
    w.on_gpu.reset();
  }
  into_ = std::move(out);
  missing_ = options_.stages.size();
  for (std::size_t p = 0; p < options_.stages.size(); ++p)
    send(self_, options_.stages[p], compute_step{work, std::move(options_.traces[p])});
  return step_state::under_way;
}

void spanning_replica::split(const std::shared_ptr<const batch>& inputs, step_work& work) {
  const std::vector<std::size_t> sizes = batch_parts(inputs->size, options_.micro_batches);
  std::size_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    micro_batch m{inputs, 1, sizes.size() == 1, i, inputs->number * options_.micro_batches + i};
    if (!m.only) {
      const std::shared_ptr<batch> part = parts_.take();
      slice_batch(*inputs, first, sizes[i], *part);
      m.samples = part;
      m.share = static_cast<float>(sizes[i]) / static_cast<float>(inputs->size);
    }
    work.micro_batches.push_back(std::move(m));
    first += sizes[i];
  }
}

/// Adds the sums in the order of the stages, so that the same step has the same bits.
float spanning_replica::end_step() {
  if (by_device_ == world_errc::out_of_memory) throw out_of_memory(broken_);
  if (by_device_) throw device_error(*by_device_, broken_);
  if (!broken_.empty()) throw std::runtime_error(broken_);
  float loss = 0;
  const std::shared_ptr<gradient> out = std::move(into_);
  out->covered = sums_.front()->covered;
  std::vector<stage_rows> rows;
  for (std::optional<stage_sum>& sum : sums_) {
    loss += sum->loss;
    rows.insert(rows.end(), sum->rows.begin(), sum->rows.end());
    out->held.push_back(std::move(sum->memory));
    sum.reset();
  }
  out->ready = {}; // every queue has done its part
  take_rows(std::move(rows), *out);
  return loss;
}

/// A shard on the GPU reads each list by itself, in the order in which a shard on the host reads them
/// joined.
void spanning_replica::take_rows(std::vector<stage_rows> rows, gradient& out) {
  if (all_near_) {
    sort_lists(rows);
    for (const stage_rows& l : rows) out.sparse_on_gpu.push_back({l.variable, l.width, l.rows, l.values});
    return;
  }
  const std::shared_ptr<row_memory> memory = rows_.take();
  out.sparse = joined(std::move(rows), *memory);
  out.held.push_back(memory);
}

} // namespace mailgrad
