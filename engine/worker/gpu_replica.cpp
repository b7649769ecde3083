#include <mailgrad/engine/worker/gpu_replica.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <fmt/format.h>

#include <cstring>

namespace mailgrad {

namespace {

std::shared_ptr<cuda::step_record> pinned_record() {
  const auto owner = std::make_shared<cuda::pinned_block>(sizeof(cuda::step_record));
  return {owner, &owner->as<cuda::step_record>().front()};
}

std::uint32_t gpu_of(const model_request& request) {
  const device d = request.devices.at(0);
  if (d.kind != device_kind::cuda)
    throw device_error(world_errc::no_such_device, fmt::format("{} is no GPU", to_string(d)));
  return d.index;
}

constexpr const char* of_loss = "the loss of a worker and the norm of its gradient";

} // namespace

/// A model for one batch size, compiled for a queue of a GPU. It has several sets of inputs, each side by
/// side in pinned memory and on the GPU, with the record of the step that reads it: meanwhile the next batch
/// goes to another. Rows of gradients of tables lie side by side, too.
/// Errors   compile: as bound_model; device_error for lack of memory.
class gpu_program {
public:
  /// `place` is a queue of the request's first device, and outlives the program. `rows_there`: on the GPU.
  gpu_program(const model_function& build, const model_request& request, const parameter_layout& layout,
              cuda::gpu_queue& place, std::size_t sets, bool rows_there = false)
      : queue_(place), rows_there_(rows_there), model_(
                                                    build, request, layout,
                                                    [&](graph& g, const model_outputs& outputs) {
                                                      list_ = loss_and_gradients(g, outputs, layout, request);
                                                      return list_.fetches;
                                                    },
                                                    place),
        reads_(model_.model(), model_.code(), model_.sources(), layout),
        covered_(coverage_of(layout, list_.dense_variables())), inputs_(sets) {
    const std::size_t bytes = model_.sources().lay_side_by_side([](const auto&, std::size_t) {});
    for (input_set& s : inputs_) s = {cuda::pinned_block(bytes), queue_.allocate(bytes), pinned_record()};
    place_rows();
    zeroed_ = queue_.record();
  }

  /// The record that a step with this set writes, which others may hold as well.
  const std::shared_ptr<cuda::step_record>& record_of(std::size_t set) const { return inputs_[set].record; }
  void bind(const float* weights, float* loss, const parameter_layout& layout) {
    for (const auto& v : model_.sources().variables())
      model_.code().bind(v.what, weights + layout.variables()[v.index].offset);
    model_.code().bind_fetch(training_fetches::loss, loss);
  }
  /// Writes a batch to the pinned memory of a set, of which no copy is under way.
  /// Errors  graph_error for a batch of other samples.
  void stage(std::size_t set, const batch& inputs) {
    model_.sources().stage(inputs, inputs_[set].staged.as<std::byte>().data());
  }
  void send(std::size_t set) {
    const cuda::pinned_block& from = inputs_[set].staged;
    cuda::runtime::copy(std::get<cuda_stream>(queue_.where()).stream, address_of(set),
                        from.as<std::byte>().data(), from.bytes());
  }
  /// Queues it beside the queue, when no step reads this set. Returns an event that passes when it is done.
  device_event send_beside(std::size_t set, cuda::copy_stream& beside) {
    beside.wait_for(std::exchange(zeroed_, {}));
    const cuda::pinned_block& from = inputs_[set].staged;
    return beside.copy(address_of(set), from.as<std::byte>().data(), from.bytes());
  }
  /// Lets runs read this set and write float32[dense_size] to `gradient`. Returns which memory they use.
  cuda::kept_graphs::key use(std::size_t set, float* gradient) {
    model_.sources().bind_staged(model_.code(), address_of(set));
    for (const dense_fetch& f : list_.dense) model_.code().bind_fetch(f.index, gradient + f.offset);
    return {this, address_of(set), gradient};
  }
  const weight_reads& reads() const noexcept { return reads_; }
  /// Where numbers of a batch lie on the GPU once it has come to this set.
  const std::int32_t* numbers_on_gpu(std::size_t set, const batch_part& part, const batch& of) const {
    return reinterpret_cast<const std::int32_t*>(part_on_gpu(set, part, of));
  }

  bool has_rows() const noexcept { return !list_.sparse.empty(); }
  /// Gives a gradient of `out.source` memory for the rows of this program's tables.
  void prepare(gradient& out) const { rows_there_ ? prepare_on_gpu(out) : prepare_on_host(out); }
  /// Queues the copy of these rows to the gradient, behind a step with this set.
  void fetch_rows(std::size_t set, gradient& out) const {
    if (rows_.bytes() == 0) return;
    void* const s = std::get<cuda_stream>(queue_.where()).stream;
    const std::byte* const from = rows_.on<std::byte>(queue_.where()).data();
    if (!rows_there_) return cuda::runtime::copy(s, out.sparse_memory.front().data(), from, rows_.bytes());
    std::byte* const to = out.rows_on_gpu.on<std::byte>(queue_.where()).data();
    cuda::runtime::copy(s, to, from, rows_.bytes());
    for (std::size_t i = 0; i < list_.sparse.size(); ++i)
      if (const auto& part = list_.sparse[i].rows_in_batch)
        cuda::runtime::copy(s, to + places_[i].rows, part_on_gpu(set, *part, *out.source),
                            list_.sparse[i].count * sizeof(std::int32_t));
  }

  program& code() { return model_.code(); }
  const std::shared_ptr<const coverage>& covered() const { return covered_; }

private:
  struct input_set {
    cuda::pinned_block staged;
    memory on_gpu;
    std::shared_ptr<cuda::step_record> record; ///< in pinned memory
  };

  /// Where the rows of one table lie, in bytes; and their numbers, unless the batch has these on the host.
  struct rows_place {
    std::size_t values, rows;
  };

  /// Places what each gradient of a table fetches, and binds it.
  void place_rows() {
    std::size_t bytes = 0;
    const auto place = [&](std::size_t count) { return std::exchange(bytes, bytes + aligned(count * 4)); };
    for (const sparse_fetch& f : list_.sparse) {
      const std::size_t values = place(f.count * f.width);
      places_.push_back({values, f.rows || rows_there_ ? place(f.count) : 0});
    }
    if (bytes == 0) return;
    rows_ = queue_.allocate(bytes);
    std::byte* const first = rows_.on<std::byte>(queue_.where()).data();
    for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
      const sparse_fetch& f = list_.sparse[i];
      model_.code().bind_fetch(f.values, first + places_[i].values);
      if (f.rows) model_.code().bind_fetch(*f.rows, first + places_[i].rows);
    }
  }
  void prepare_on_host(gradient& out) const {
    if (out.sparse_memory.empty()) out.sparse_memory.resize(1);
    block& memory = out.sparse_memory.front();
    if (memory.bytes() < rows_.bytes()) memory = cuda::pinned_memory(rows_.bytes());
    out.sparse.resize(list_.sparse.size());
    for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
      const sparse_fetch& f = list_.sparse[i];
      const rows_place& at = places_[i];
      const auto rows =
          f.rows ? std::span(reinterpret_cast<const std::int32_t*>(memory.data() + at.rows), f.count)
                 : f.rows_in_batch->of(*out.source).values<std::int32_t>();
      out.sparse[i] = {f.variable,
                       f.width,
                       rows,
                       {reinterpret_cast<const float*>(memory.data() + at.values), f.count * f.width}};
    }
  }
  /// Memory that is too small stays with the gradient, since the GPU would be waited for to free it.
  void prepare_on_gpu(gradient& out) const {
    if (out.rows_on_gpu.bytes() < rows_.bytes()) {
      if (out.rows_on_gpu.bytes() > 0)
        out.held.push_back(std::make_shared<memory>(std::move(out.rows_on_gpu)));
      out.rows_on_gpu = queue_.allocate(rows_.bytes());
    }
    out.sparse_on_gpu.resize(list_.sparse.size());
    if (rows_.bytes() == 0) return;
    const std::byte* const first = std::as_const(out.rows_on_gpu).on<std::byte>(queue_.where()).data();
    for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
      const sparse_fetch& f = list_.sparse[i];
      out.sparse_on_gpu[i] = {f.variable,
                              f.width,
                              {reinterpret_cast<const std::int32_t*>(first + places_[i].rows), f.count},
                              {reinterpret_cast<const float*>(first + places_[i].values), f.count * f.width}};
    }
  }
  const std::byte* part_on_gpu(std::size_t set, const batch_part& part, const batch& of) const {
    std::optional<std::size_t> place;
    model_.sources().lay_side_by_side([&](const auto& input, std::size_t at) {
      if (!place && &input.part.of(of) == &part.of(of)) place = at;
    });
    return address_of(set) + place.value();
  }
  std::byte* address_of(std::size_t set) { return inputs_[set].on_gpu.on<std::byte>(queue_.where()).data(); }
  const std::byte* address_of(std::size_t set) const {
    return inputs_[set].on_gpu.on<std::byte>(queue_.where()).data();
  }

  cuda::gpu_queue& queue_;
  bool rows_there_;
  training_fetches list_;
  bound_model model_;
  weight_reads reads_;
  std::shared_ptr<const coverage> covered_; ///< by the gradients that are fetched
  std::vector<input_set> inputs_;
  std::vector<rows_place> places_; ///< of each gradient of a table
  memory rows_;                    ///< of all of them, on the GPU
  /// Of the sets' memory on the GPU, until a copy beside the queue has been told to wait for it.
  device_event zeroed_;
};

gpu_replica::gpu_replica(model_function build, model_request request,
                         std::shared_ptr<const parameter_layout> layout, std::shared_ptr<event_watch> watch,
                         const weight_places& weights, product_precision products, std::size_t graphs,
                         std::size_t run_ahead)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)),
      place_(request_.devices.at(0)), watch_(std::move(watch)), queue_(gpu_of(request_), products),
      beside_(place_.index), near_(weights.on_gpu_by_shard(layout_->shard_count())),
      all_near_(std::ranges::count(near_, false) == 0), any_near_(std::ranges::count(near_, true) > 0),
      shards_(layout_->shard_count()), most_under_way_(all_near_ ? 1 + run_ahead : 1),
      weights_(naming_memory("the weights of a worker",
                             [this] { return queue_.allocate(layout_->size() * sizeof(float)); })),
      loss_(naming_memory(of_loss, [this] { return queue_.allocate(sizeof(float)); })),
      norm_(naming_memory(of_loss, [this] { return queue_.allocate(sizeof(double)); })), graphs_(graphs) {
  queued_.reserve(most_under_way_);
  if (all_near_) return;
  staged_ = naming_memory("the weights of a worker", [this] { return cuda::pinned_block(weights_.bytes()); });
  if (any_near_) return;
  gradient_ = naming_memory("the gradient of a worker",
                            [this] { return queue_.allocate(layout_->dense_size() * sizeof(float)); });
}

gpu_replica::~gpu_replica() {
  on_end({}); // whoever is told may end with the replica
  try {
    queue_.finish(); // before the memory goes that both streams still read and write
    beside_.finish();
  } catch (const device_error&) { // nothing of a GPU that is lost runs any more
  }
}

gpu_program& gpu_replica::program_for(std::size_t samples) {
  auto& known = programs_[samples];
  if (!known) {
    model_request request = request_;
    request.batch = samples;
    // A set for each step under way, and one for the batch that is foreseen meanwhile.
    auto made =
        naming_memory([&] { return fmt::format("the values and batches of a step of {} samples", samples); },
                      [&] {
                        return std::make_unique<gpu_program>(build_, request, *layout_, queue_,
                                                             most_under_way_ + 1, all_near_);
                      });
    made->bind(weights_.on<float>(queue_.where()).data(), loss_.on<float>(queue_.where()).data(), *layout_);
    known = std::move(made);
  }
  return *known;
}

/// A set that neither a step under way reads nor the batch lies in that was foreseen.
std::size_t gpu_replica::free_set(const gpu_program& p) const {
  std::size_t set = 0;
  const auto taken = [&](const auto& by) { return by.code == &p && by.set == set; };
  while ((foreseen_ && taken(*foreseen_)) || std::ranges::any_of(queued_, taken)) ++set;
  return set;
}

void gpu_replica::foresee(std::shared_ptr<const batch> next, std::function<void()> copied) {
  if (!next) return;
  if (foreseen_ && (foreseen_->inputs == next || !foreseen_->copied.passed())) return;
  const auto known = programs_.find(next->size);
  if (known == programs_.end()) return;
  foreseen_.reset();
  cuda::runtime::make_current(place_.index);
  gpu_program& p = *known->second;
  const std::size_t set = free_set(p);
  p.stage(set, *next);
  device_event done = p.send_beside(set, beside_);
  foreseen_.emplace(foreseen_batch{&p, set, std::move(next), done});
  if (copied)
    watch_->when_passed(std::move(done), [tell = std::move(copied)](const std::exception_ptr& why) {
      if (!why) tell(); // else the step fails as well, and says why
    });
}

/// Chooses the set of inputs of a step, and fills it unless that was foreseen.
gpu_replica::queued_step gpu_replica::place(std::shared_ptr<const batch> inputs,
                                            std::shared_ptr<gradient> out) {
  if (foreseen_ && foreseen_->inputs == inputs)
    return {foreseen_->code, foreseen_->set, std::move(inputs), std::move(out), {}};
  gpu_program& p = program_for(inputs->size);
  const std::size_t set = free_set(p);
  p.stage(set, *inputs);
  return {&p, set, std::move(inputs), std::move(out), {}};
}

step_state gpu_replica::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  if (queued_.size() == most_under_way_)
    throw std::invalid_argument(fmt::format("step: {} are under way already", queued_.size()));
  cuda::runtime::make_current(place_.index);
  queued_step step = place(std::move(inputs), std::move(out));
  stage_other_weights(step);
  step.out->source = step.inputs;
  if (step.out->covered != step.code->covered()) step.out->covered = step.code->covered();
  naming_memory("the rows of a gradient", [&] { step.code->prepare(*step.out); });
  step.compared = std::exchange(compared_, nullptr);
  step.weights = std::move(spare_);
  for (const given_weights& w : shards_)
    if (w.on_gpu) step.weights.push_back(w.on_gpu);
  queued_.push_back(std::move(step));
  try {
    queue_step();
  } catch (...) {
    abandon();
    throw;
  }
  for (given_weights& w : shards_) w.on_gpu = {}; // the step holds them
  return step_state::under_way;
}

/// Queues the record of the step, with the norm of a gradient that the host does not have.
void gpu_replica::note_end(const float* gradient) {
  const bool norm_wanted = norms_ && any_near_;
  double* const norm = norm_wanted ? norm_.on<double>(queue_.where()).data() : nullptr;
  if (norm) {
    const std::span<const float> values(gradient, layout_->dense_size());
    inner_product(queue_.where(), values, values, norm);
  }
  const queued_step& step = queued_.back();
  cuda::write_record(queue_stream(), loss_.on<float>(queue_.where()).data(), norm,
                     step.code->record_of(step.set).get());
}

/// The step's own time begins when all that it reads is there.
void gpu_replica::queue_step() {
  const cuda_stream& s = queue_stream();
  queued_step& step = queued_.back();
  float* const gradient = place_for_gradient();
  for (const given_weights& w : shards_) queue_.wait_for(w.on_gpu.ready());
  if (foreseen_ && foreseen_->inputs == step.inputs) {
    queue_.wait_for(foreseen_->copied);
    foreseen_.reset();
  } else {
    step.code->send(step.set);
  }
  const cuda::kept_graphs::key used = step.code->use(step.set, gradient);
  cuda::begin_step(s, step.inputs->number, ++begun_);
  send_weights();
  graphs_.run(s.stream, used, [&] {
    step.code->code().queue(s);
    note_end(gradient);
  });
  if (!all_near_) fetch_gradient(gradient);
  step.code->fetch_rows(step.set, *step.out);
  if (step.compared) multiply(gradient);
  // Rows are copied behind the record, out of the set of inputs that the end of the step sets free.
  const bool record_is_last = all_near_ && !step.compared && !step.code->has_rows();
  const device_event done =
      record_is_last ? queue_.record(step.code->record_of(step.set), begun_) : queue_.record();
  step.out->ready = any_near_ ? done : device_event();
  watch_->when_passed(done, [ended = ending_](std::exception_ptr why) {
    const std::lock_guard held(ended->mutex);
    if (!ended->failure) ended->failure = std::move(why);
    if (ended->tell) ended->tell();
  });
}

/// Waits for what was queued of a step that could not be queued whole, and forgets what it found.
void gpu_replica::abandon() noexcept {
  try {
    queue_.take_fault();
    beside_.finish();
  } catch (const std::exception&) {
    // The GPU is lost, and the caller hears why.
  }
  forget(queued_.back());
  queued_.pop_back();
}

float gpu_replica::end_step() {
  queued_step ended = std::move(queued_.front());
  queued_.erase(queued_.begin());
  forget(ended);
  {
    const std::lock_guard held(ending_->mutex);
    if (ending_->failure) std::rethrow_exception(ending_->failure);
  }
  const cuda::step_record& record = *ended.code->record_of(ended.set);
  if (record.fault.cause != 0) ended.code->code().raise(record.fault);
  if (all_near_)
    span_ = {instant{static_cast<std::int64_t>(record.begun)},
             instant{static_cast<std::int64_t>(record.ended)}};
  squared_norm_ = record.squared_norm;
  return record.loss;
}

std::string gpu_replica::waits_for() const {
  return fmt::format("the end of a step on {}", to_string(place_));
}

void gpu_replica::require_shard(std::uint32_t shard, bool values) const {
  if (shard >= shards_.size() || !values)
    throw std::invalid_argument(fmt::format("weights: {} for shard {} of {}", values ? "values" : "no values",
                                            shard, shards_.size()));
}

void gpu_replica::use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) {
  require_shard(shard, values != nullptr);
  if (near_[shard])
    throw device_error(world_errc::wrong_place,
                       fmt::format("weights: expected those of shards on {}, found some of the host",
                                   to_string(device{place_.kind, place_.index})));
  shards_[shard] = {values};
}

void gpu_replica::use_weights(std::uint32_t shard, const snapshot& values) {
  if (values && !values.owner()->is_on_host()) {
    require_shard(shard, true);
    if (!near_[shard])
      throw device_error(world_errc::wrong_place, "weights: expected those of shards on the host");
    values.on(queue_.where()); // refuses those of another GPU
    shards_[shard] = {nullptr, false, values};
    return;
  }
  step_runner::use_weights(shard, values);
  if (!queued_.empty() || racing()) return; // the copy of the step under way may still read there
  stage_dense(shard);
  shards_[shard].staged = true;
}

/// What the step reads of the shard's tables, which only its batch tells.
void gpu_replica::stage_tables(std::uint32_t shard, const queued_step& step) {
  const shard_range range = layout_->shard(shard);
  const float* const from = shards_[shard].values;
  float* const to = staged_.as<float>().data();
  const shard_range tables{std::max(range.begin, layout_->dense_size()), range.end};
  for_each_part(step.code->reads().whole(), tables, [&](const shard_range& part) {
    std::copy_n(from + (part.begin - range.begin), part.size(), to + part.begin);
  });
  copies_.clear();
  const batch& b = *step.inputs;
  step.code->reads().list_copies(
      shard, from, to, [&b](const batch_part& part) { return part.of(b).values<std::int32_t>().data(); },
      copies_);
  copy_rows(host_stream{}, copies_);
}

/// Copies tables, and weights that may have changed since they were given, as others write under hogwild.
void gpu_replica::stage_other_weights(const queued_step& step) {
  std::optional<racing_read> others_write;
  if (racing()) others_write.emplace();
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    if (shards_[s].values == nullptr && !shards_[s].on_gpu)
      throw std::invalid_argument(fmt::format("weights: none of shard {} yet", s));
    if (!shards_[s].values) continue;
    if (!shards_[s].staged) stage_dense(s);
    stage_tables(s, step);
  }
}

/// They go to the same memory in each step, so that its graph reads the same addresses.
void gpu_replica::send_weights() {
  const queued_step& step = queued_.back();
  const weight_reads& reads = step.code->reads();
  const auto numbers = [&step](const batch_part& part) {
    return step.code->numbers_on_gpu(step.set, part, *step.inputs);
  };
  const stream& s = queue_.where();
  float* const there = weights_.on<float>(s).data();
  const float* const staged = all_near_ ? nullptr : staged_.as<float>().data();
  const auto send = [&](const shard_range& part, const float* from) {
    cuda::runtime::copy(queue_stream().stream, there + part.begin, from, part.size() * sizeof(float));
  };
  copies_.clear();
  for (const shard_range& part : reads.whole())
    if (!any_near_) send(part, staged + part.begin);
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const shard_range range = layout_->shard(i);
    const float* const from = near_[i] ? shards_[i].on_gpu.on(s).data() : staged + range.begin;
    if (any_near_)
      for_each_part(reads.whole(), range,
                    [&](const shard_range& part) { send(part, from + (part.begin - range.begin)); });
    reads.list_copies(i, from, there, numbers, copies_);
  }
  copy_rows(s, copies_);
}

std::shared_ptr<gradient> gpu_replica::new_gradient() const {
  if (!any_near_) return mailgrad::make_gradient(*layout_, cuda::pinned_memory);
  memory there(cuda::allocate_on(queue_stream(), layout_->dense_size() * sizeof(float)));
  if (!all_near_) {
    auto made = mailgrad::make_gradient(*layout_, cuda::pinned_memory);
    made->on_gpu = std::move(there);
    made->gpu = place_.index;
    return made;
  }
  auto made = std::make_shared<gradient>();
  made->dense = std::move(there);
  return made;
}

/// Copies what shards that are not on the GPU read of the gradient.
void gpu_replica::fetch_gradient(const float* from) {
  const std::span<float> to = queued_.back().out->dense.on_host<float>();
  const cuda_stream& s = queue_stream();
  if (!any_near_) return cuda::runtime::copy(s.stream, to.data(), from, to.size_bytes());
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const shard_range range = layout_->shard(i);
    const std::size_t end = std::min(range.end, to.size());
    if (near_[i] || range.begin >= end) continue;
    cuda::runtime::copy(s.stream, to.data() + range.begin, from + range.begin,
                        (end - range.begin) * sizeof(float));
  }
}

/// Queues what cosine_to() makes of the step's gradient and the one that it is compared with.
void gpu_replica::multiply(const float* fresh) {
  const stream& s = queue_.where();
  if (!products_)
    products_ = naming_memory("the comparison of a sampled gradient", [this] {
      return inner_products{queue_.allocate(3 * sizeof(double)), cuda::pinned_block(3 * sizeof(double))};
    });
  double* const found = products_->on_gpu.on<double>(s).data();
  const std::span<const float> a = queued_.back().compared->dense_for(s).on<float>(s),
                               b(fresh, layout_->dense_size());
  inner_product(s, a, b, found);
  inner_product(s, a, a, found + 1);
  inner_product(s, b, b, found + 2);
  cuda::runtime::copy(queue_stream().stream, products_->seen.as<double>().data(), found, 3 * sizeof(double));
}

} // namespace mailgrad
