#include <mailgrad/engine/worker/gpu_stage.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstring>

namespace mailgrad {

namespace {

/// Calls `use` for each shard with the part of `ranges` that lies in it.
template <class Use>
void for_each_piece(const parameter_layout& layout, std::span<const shard_range> ranges, Use use) {
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    for_each_part(ranges, layout.shard(s), [&](const shard_range& piece) { use(s, piece); });
}

constexpr const char* between_devices = "values between the devices of a worker";
constexpr const char* of_rows = "the rows of a gradient";
constexpr const char* of_batch = "a micro-batch";

block_source pinned_by(std::uint32_t gpu) {
  return [gpu](std::size_t bytes) {
    cuda::runtime::make_current(gpu); // pinned memory would else wake the first GPU
    return cuda::pinned_memory(bytes);
  };
}

} // namespace

gpu_stage::gpu_stage(device where, std::shared_ptr<const parameter_layout> layout,
                     const weight_places& weights, product_precision products)
    : where_(where), layout_(std::move(layout)), near_(weights.on_gpu_by_shard(layout_->shard_count())),
      all_near_(std::ranges::count(near_, false) == 0), any_near_(std::ranges::count(near_, true) > 0),
      queue_(std::make_shared<cuda::gpu_queue>(where.index, products)), pinned_(pinned_by(where.index)),
      weights_(naming_memory("the weights of a stage",
                             [this] { return queue_->allocate(layout_->size() * sizeof(float)); })),
      no_loss_(naming_memory("the loss of a stage", [this] { return queue_->allocate(sizeof(float)); })) {
  cuda::runtime::make_current(where_.index);
  if (!all_near_)
    staged_ =
        naming_memory("the weights of a stage", [this] { return cuda::pinned_block(weights_.bytes()); });
  if (!any_near_)
    gradient_ = naming_memory("the gradient of a stage",
                              [this] { return queue_->allocate(layout_->dense_size() * sizeof(float)); });
}

void gpu_stage::make_room_for(std::size_t runs) {
  if (records_.bytes() >= runs * sizeof(cuda::step_record)) return;
  cuda::pinned_block larger = naming_memory("what a GPU tells of a step", [runs] {
    return cuda::pinned_block(2 * runs * sizeof(cuda::step_record));
  });
  outgrown_.push_back(std::exchange(records_, std::move(larger)));
}

void gpu_stage::begin(std::span<const weight_view> weights, bool racing, const stage_program& code,
                      std::size_t runs, stage_sum& sum) {
  cuda::runtime::make_current(where_.index);
  on_gpu_.used = on_host_.used = 0;
  runs_.clear();
  parts_.clear();
  make_room_for(runs);
  queue_->wait_for(sum.into->ready); // its memory may still be filled with zeros
  given_ = weights;
  send_weights(racing, code);
}

/// Those that the stage reads, to the same place in each step. Rows of tables come with the micro-batches.
void gpu_stage::send_weights(bool racing, const stage_program& code) {
  for (const weight_view& w : given_) queue_->wait_for(w.on_gpu.ready());
  std::optional<racing_read> others_write;
  if (racing) others_write.emplace();
  for_each_piece(*layout_, code.weights_read(),
                 [this](std::uint32_t s, const shard_range& piece) { send(s, piece); });
  for_each_piece(*layout_, code.tables_read(), [this](std::uint32_t s, const shard_range& piece) {
    if (!near_[s]) send(s, piece);
  });
}

void gpu_stage::send(std::uint32_t shard, const shard_range& piece) {
  const std::size_t first = piece.begin - layout_->shard(shard).begin;
  const float* from = nullptr;
  if (near_[shard]) {
    from = given_[shard].on_gpu.on(queue_->where()).data() + first;
  } else if (given_[shard].values != nullptr) {
    float* const staged = staged_.as<float>().data() + piece.begin;
    std::copy_n(given_[shard].values + first, piece.size(), staged);
    from = staged;
  } else {
    throw std::invalid_argument("weights: those of a stage are not where it reads them");
  }
  float* const to = weights_.on<float>(queue_->where()).data() + piece.begin;
  copy_bytes(queue_->where(), to, from, piece.size() * sizeof(float));
}

const value_set* gpu_stage::bring(const std::shared_ptr<const value_set>& values) {
  if (const auto known = brought_.find(values.get()); known != brought_.end()) return known->second.get();
  held_.push_back(values);
  std::shared_ptr<const value_set> here = values;
  if (values->where.kind == device_kind::cuda && values->where.index == where_.index)
    queue_->wait_for(values->ready);
  else
    here = copy_of(values->on_host.empty() ? values->values : values->on_host);
  return brought_.emplace(values.get(), std::move(here)).first->second.get();
}

/// `from` lies in pinned memory, as no copy from elsewhere could be queued without waiting for it.
std::shared_ptr<value_set> gpu_stage::copy_of(const std::vector<memory>& from) {
  auto here = std::make_shared<value_set>();
  here->where = where_;
  for (const memory& m : from) {
    std::byte* const to = naming_memory(between_devices, [&] { return on_gpu_.take(m.bytes(), *queue_); });
    copy_bytes(queue_->where(), to, m.on_host<std::byte>().data(), m.bytes());
    here->values.emplace_back(device_block({device_kind::cuda, where_.index}, to, m.bytes(), [](void*) {}));
  }
  return here;
}

void gpu_stage::ran(const stage_program& code, std::size_t i, float share) {
  const float* const loss = code.loss_of(i);
  cuda::write_record(queue_stream(), loss ? loss : no_loss_.on<float>(queue_->where()).data(), nullptr,
                     &record_of(runs_.size()));
  runs_.push_back({&code, i, share, loss != nullptr});
}

void gpu_stage::hand_on(value_set& made, bool elsewhere) {
  made.on_host.clear();
  for (const memory& m : made.values) {
    if (!elsewhere) break;
    made.on_host.push_back(naming_memory(between_devices, [&] { return queue_->lend_on_host(m.bytes()); }));
    queue_->copy_to_host(m, 0, made.on_host.back());
  }
  made.ready = queue_->record();
}

/// What shards that are not on the GPU read of the gradient.
void gpu_stage::fetch_dense(const stage_program& code, stage_sum& sum) {
  float* const to = sum.into->dense.on_host<float>().data();
  const float* const from = dense_of(sum);
  for_each_piece(*layout_, code.delivered_ranges(), [&](std::uint32_t s, const shard_range& piece) {
    if (!near_[s])
      copy_bytes(queue_->where(), to + piece.begin, from + piece.begin, piece.size() * sizeof(float));
  });
}

/// The lists lead to the host from now on.
void gpu_stage::fetch_rows(stage_sum& sum) {
  const auto fetched = [&]<class T>(std::span<T> there) {
    using element = std::remove_const_t<T>;
    auto* const here = reinterpret_cast<element*>(
        naming_memory(of_rows, [&] { return sum.memory->take(there.size_bytes(), pinned_); }));
    copy_bytes(queue_->where(), here, there.data(), there.size_bytes());
    return std::span<T>(here, there.size());
  };
  for (stage_rows& list : sum.rows) {
    list.values = fetched(list.values);
    if (!list.rows_in_batch) list.rows = fetched(list.rows);
  }
}

std::vector<gpu_stage::run_span> gpu_stage::take(stage_sum& sum) {
  std::vector<run_span> spans;
  const std::vector<noted_run> noted = std::exchange(runs_, {});
  held_.clear();
  brought_.clear();
  for (std::size_t i = 0; i < noted.size(); ++i) {
    const cuda::step_record& found = record_of(i);
    if (found.fault.cause != 0) noted[i].code->raise(noted[i].part, found.fault);
    if (noted[i].has_loss) sum.loss += noted[i].share * found.loss;
    spans.push_back(
        {instant{static_cast<std::int64_t>(found.begun)}, instant{static_cast<std::int64_t>(found.ended)}});
  }
  return spans;
}

void gpu_stage::abandon() noexcept {
  try {
    queue_->take_fault();
  } catch (const std::exception&) {
    // The GPU is lost, and nothing of it runs any more.
  }
  runs_.clear();
  brought_.clear();
  held_.clear();
}

const void* gpu_stage::part_of(const micro_batch& m, const tensor& part) {
  const std::byte*& known = parts_[{m.place, &part}];
  if (known) return known;
  const std::size_t bytes = part.size() * byte_size(part.type());
  std::byte* const from = naming_memory(of_batch, [&] { return on_host_.take(bytes, pinned_); });
  std::memcpy(from, part.data(), bytes);
  std::byte* const to = naming_memory(of_batch, [&] { return on_gpu_.take(bytes, *queue_); });
  copy_bytes(queue_->where(), to, from, bytes);
  return known = to;
}

void gpu_stage::bring_rows(const micro_batch& m, const weight_reads& reads) {
  float* const there = weights_.on<float>(queue_->where()).data();
  const auto numbers = [&](const batch_part& part) {
    return static_cast<const std::int32_t*>(part_of(m, part.of(*m.samples)));
  };
  copies_.clear();
  for (std::uint32_t s = 0; s < given_.size(); ++s)
    if (near_[s]) reads.list_copies(s, given_[s].on_gpu.on(queue_->where()).data(), there, numbers, copies_);
  copy_rows(queue_->where(), copies_);
}

/// Shards on the GPU read the rows after the step.
std::byte* gpu_stage::room_for_rows(std::size_t bytes, stage_sum& sum) {
  return naming_memory(
      of_rows, [&] { return all_near_ ? sum.memory->take(bytes, *queue_) : on_gpu_.take(bytes, *queue_); });
}

std::span<const std::int32_t> gpu_stage::rows_of(const micro_batch& m, const tensor& part, stage_sum& sum) {
  if (!all_near_) return part.values<std::int32_t>();
  const std::size_t bytes = part.size() * sizeof(std::int32_t);
  std::byte* const to = naming_memory(of_rows, [&] { return sum.memory->take(bytes, *queue_); });
  copy_bytes(queue_->where(), to, part_of(m, part), bytes);
  return {reinterpret_cast<const std::int32_t*>(to), part.size()};
}

} // namespace mailgrad
