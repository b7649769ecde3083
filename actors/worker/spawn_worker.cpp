#include <mailgrad/actors/worker/spawn_worker.hpp>

#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/actors/worker/spanning_replica.hpp>
#include <mailgrad/actors/worker/stage_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>

namespace mailgrad {

using messaging::spawn;

namespace {

class worker_assembly {
public:
  worker_assembly(caf::actor_system& system, const worker_terms& terms, worker_surroundings with)
      : system_(system), terms_(terms), with_(std::move(with)) {}

  prepared_worker prepare() {
    const auto made = std::make_shared<device_actor_options>();
    device_actor_options& options = *made;
    give_runner(options);
    if (with_.runner) options.runner = with_.runner(terms_.worker, std::move(options.runner));
    options.terms = terms_;
    options.peers = with_.peers;
    if (terms_.local) give_local_steps(options);
    if (with_.shared) {
      give_writer(options);
      options.direct = with_.shared->from_start;
    }
    for (std::size_t s = 0; s < terms_.layout->shard_count(); ++s)
      options.shard_begins.push_back(terms_.layout->shard(s).begin);
    if (with_.samples)
      options.samples =
          std::make_shared<local_batches>(with_.samples, terms_.request.batch, terms_.request.nonzeros);
    options.sums = std::move(with_.sums);
    options.pace = with_.pace;
    options.time = with_.time;
    options.ends_with_gpu = with_.ends_with_gpu;
    const std::string track = track_name(options.runner_hears != nullptr);
    options.trace = new_track(track);
    if (options.runner->copies_ahead()) options.copies = new_track(track + ", copies");
    if (with_.tells_timeline) options.tells_trace = to_string(terms_.request.devices.front());
    return {[made, &system = system_] { return spawn<device_actor>(system, std::move(*made)); },
            std::move(stages_)};
  }

private:
  std::shared_ptr<trace_track> new_track(std::string name) const {
    if (terms_.trace_events == 0) return nullptr;
    return std::make_shared<trace_track>(std::move(name), terms_.trace_events, with_.created);
  }

  std::string track_name(bool spans) const {
    if (spans) return fmt::format("worker {}", terms_.worker.value);
    return fmt::format("worker {} on {}", terms_.worker.value, to_string(terms_.request.devices.front()));
  }

  /// A worker computes on one device, or in stages on several devices with an actor each.
  void give_runner(device_actor_options& options) {
    const model_request& request = terms_.request;
    if (request.devices.size() == 1) {
      options.runner = runner_on(request);
      return;
    }
    const block_source blocks = blocks_to_copy_from();
    spanning_replica::options span{
        terms_.worker,     request.devices, {}, terms_.micro_batches, terms_.replica_layout, {},
        terms_.sums_apart, blocks};
    span.weights = weights_of_replica();
    for (std::size_t p = 0; p < request.devices.size(); ++p) {
      stage_actor_options stage{p,          request.devices,       with_.model,
                                request,    terms_.replica_layout, request.devices.size() + 1,
                                with_.time, terms_.sums_apart};
      if (request.devices[p].kind == device_kind::cuda)
        stage.gpu = std::make_shared<gpu_stage>(request.devices[p], terms_.replica_layout,
                                                weights_of_replica(), terms_.products);
      stage.blocks = blocks;
      stage.watch = with_.watch;
      span.stages.push_back(spawn<stage_actor>(system_, std::move(stage)));
      span.traces.push_back(new_track(
          fmt::format("worker {}, stage on {}", terms_.worker.value, to_string(request.devices[p]))));
    }
    stages_ = span.stages;
    const auto spanning = std::make_shared<spanning_replica>(std::move(span));
    options.runner = spanning;
    options.runner_hears = [spanning](caf::event_based_actor* self) { return spanning->hear(self); };
  }

  /// Pinned memory if one of the devices is on a GPU, which copies from it and to it.
  block_source blocks_to_copy_from() const {
    const auto gpu = std::ranges::find(terms_.request.devices, device_kind::cuda, &device::kind);
    if (gpu == terms_.request.devices.end()) return with_.blocks;
    return [at = gpu->index](std::size_t bytes) {
      cuda::runtime::make_current(at); // it would else wake the first GPU
      return naming_memory("a gradient of a worker, or values between its devices",
                           [bytes] { return cuda::pinned_memory(bytes); });
    };
  }

  bool all_weights_there() const {
    return !with_.weights.empty() && std::ranges::count(with_.weights, weight_place::host) == 0;
  }

  /// A queue of its GPU for updates of its own, which steps wait for.
  std::shared_ptr<device_queue> own_queue() const {
    return std::make_shared<cuda::gpu_queue>(terms_.request.devices.front().index, product_precision::float32,
                                             cuda::runtime::urgency::first);
  }

  /// They are taken where the shards lie, on a queue of their own if that is a GPU, and on the host if some
  /// are not there.
  void give_local_steps(device_actor_options& options) const {
    options.works_in = std::make_shared<host_queue>(with_.blocks);
    if (all_weights_there()) options.works_in = own_queue();
    options.watch = with_.watch;
    options.local = std::make_shared<local_steps>(terms_.layout, *terms_.local, options.works_in);
  }

  void give_writer(device_actor_options& options) const {
    const shared_block& block = *with_.shared;
    if (!block.on_gpu) {
      options.writer = std::make_shared<hogwild_writer>(*terms_.layout, block.store, block.rule);
      return;
    }
    options.works_in = own_queue();
    options.watch = with_.watch;
    options.writer = std::make_shared<hogwild_writer>(*terms_.layout, block.store, block.rule, block.on_gpu,
                                                      terms_.worker.value, options.works_in);
  }

  /// The weights of local steps are one block.
  weight_places weights_of_replica() const {
    if (with_.weights.empty()) return weight_place::host;
    if (terms_.local) return all_weights_there() ? weight_place::same_gpu : weight_place::host;
    return with_.weights;
  }

  std::shared_ptr<step_runner> runner_on(const model_request& request) const {
    if (request.devices.front().kind == device_kind::cpu)
      return std::make_shared<replica>(with_.model, request, terms_.replica_layout, with_.blocks);
    auto made = std::make_shared<gpu_replica>(
        with_.model, request, terms_.replica_layout, with_.watch ? with_.watch : watch_of_process(),
        weights_of_replica(), terms_.products, cuda::kept_graphs::most_kept, with_.run_ahead);
    for (const std::size_t size : with_.batch_sizes) made->prepare(size);
    return made;
  }

  caf::actor_system& system_;
  const worker_terms& terms_;
  worker_surroundings with_;
  std::vector<caf::actor> stages_;
};

} // namespace

prepared_worker prepare_worker(caf::actor_system& system, const worker_terms& terms,
                               worker_surroundings with) {
  return worker_assembly(system, terms, std::move(with)).prepare();
}

spawned_worker spawn_worker(caf::actor_system& system, const worker_terms& terms, worker_surroundings with) {
  prepared_worker made = prepare_worker(system, terms, std::move(with));
  return {made.begin(), std::move(made.stages)};
}

} // namespace mailgrad
