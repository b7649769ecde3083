#include <mailgrad/graph/program/program.hpp>

#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>

#include <fmt/format.h>

namespace mailgrad {

class program::implementation {
public:
  implementation(const graph& model, program_plan plan, device_queue& place);

  void bind(const value& source, const void* memory);
  void bind_fetch(std::size_t index, void* memory, next_use use);
  std::size_t fetch_bytes(std::size_t index) const { return plan_.storages[storage_of_fetch(index)].bytes; }
  const void* fetched(std::size_t index) const { return memory_[storage_of_fetch(index)].address; }
  bool needs(const value& source) const {
    return source.is_of(model_) && plan_.storage_of(source) != storage::none;
  }
  void run(const stream& s, std::uint64_t number, const completion& done);
  void queue(const cuda_stream& s, const std::function<void(std::string_view)>& queued);
  void raise(const cuda::fault_word& fault) const;
  std::size_t arena_bytes() const noexcept { return arena_.bytes(); }
  std::size_t kernel_count() const noexcept { return plan_.steps.size(); }

private:
  /// The memory of a storage, and the arguments of kernels that change with its address.
  struct bound_memory {
    const void* address = nullptr;
    std::vector<const void**> uses;
  };
  /// What the kernel of a step is called with.
  struct arguments {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    next_use output_use = next_use::soon;
  };

  std::size_t storage_of_fetch(std::size_t index) const;
  const void* first_address_of(const storage& s) const;
  void keep_constants(device_queue& place);
  void take_workspace_for_products(const device_queue& place) const;
  void require_bound() const;
  void run_step(const stream& s, std::size_t step, std::uint64_t number);
  void link();
  void move(std::size_t storage, const void* memory);

  const graph& model_;
  program_plan plan_;
  memory arena_; ///< values, then the scratch memory that all kernels use in turn
  std::byte* values_;
  void* scratch_;
  std::vector<memory> constants_;    ///< copies of those that the queue's kernels cannot read where they are
  std::vector<bound_memory> memory_; ///< by storage
  std::vector<arguments> arguments_; ///< by step
};

program::implementation::implementation(const graph& model, program_plan plan, device_queue& place)
    : model_(model), plan_(std::move(plan)),
      arena_(place.allocate(plan_.arena_bytes + aligned(plan_.scratch_bytes))),
      values_(arena_.on<std::byte>(place.where()).data()), scratch_(values_ + plan_.arena_bytes),
      memory_(plan_.storages.size()), arguments_(plan_.steps.size()) {
  if (!arena_.is_on_host()) keep_constants(place);
  take_workspace_for_products(place);
  link();
}

/// A queue that never multiplies does without.
void program::implementation::take_workspace_for_products(const device_queue& place) const {
  const auto* const gpu = std::get_if<cuda_stream>(&place.where());
  const auto multiplies = [](const planned_step& s) {
    return dynamic_cast<const multiplying*>(s.work.get()) != nullptr;
  };
  if (gpu != nullptr && std::ranges::any_of(plan_.steps, multiplies)) gpu->products->take_workspace();
}

/// Constants are 4 bytes an element, whatever their type.
void program::implementation::keep_constants(device_queue& place) {
  for (storage& s : plan_.storages) {
    if (s.where != storage::place::constant) continue;
    memory copy = place.allocate(s.bytes);
    place.write({static_cast<const float*>(s.constant), s.bytes / sizeof(float)}, copy);
    s.constant = copy.on<std::byte>(place.where()).data();
    constants_.push_back(std::move(copy));
  }
}

void program::implementation::link() {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const planned_step& s = plan_.steps[i];
    arguments& a = arguments_[i];
    a.inputs.resize(s.inputs.size());
    a.outputs.resize(s.outputs.size());
    for (std::size_t k = 0; k < s.inputs.size(); ++k) memory_[s.inputs[k]].uses.push_back(&a.inputs[k]);
    for (std::size_t k = 0; k < s.outputs.size(); ++k)
      memory_[s.outputs[k]].uses.push_back(const_cast<const void**>(&a.outputs[k]));
  }
  for (std::size_t s = 0; s < memory_.size(); ++s) move(s, first_address_of(plan_.storages[s]));
}

const void* program::implementation::first_address_of(const storage& s) const {
  switch (s.where) {
  case storage::place::arena:
    return values_ + s.offset;
  case storage::place::constant:
    return s.constant;
  case storage::place::source:
    return nullptr;
  }
  return nullptr;
}

void program::implementation::move(std::size_t storage, const void* memory) {
  memory_[storage].address = memory;
  for (const void** use : memory_[storage].uses) *use = memory;
}

std::size_t program::implementation::storage_of_fetch(std::size_t index) const {
  if (index < plan_.fetches.size()) return plan_.fetches[index];
  throw std::invalid_argument(
      fmt::format("program: there is no fetch {}; it has {}", index, plan_.fetches.size()));
}

void program::implementation::bind(const value& source, const void* memory) {
  if (!source.is_of(model_)) throw graph_error("bind: the value belongs to another graph");
  const std::size_t s = plan_.storage_of(source);
  if (s != storage::none && plan_.storages[s].where == storage::place::source) move(s, memory);
}

void program::implementation::bind_fetch(std::size_t index, void* memory, next_use use) {
  const std::size_t bound = storage_of_fetch(index);
  const storage& s = plan_.storages[bound];
  if (memory == nullptr && s.bytes != 0)
    throw std::invalid_argument(
        fmt::format("program: fetch {} of {} bytes is bound to no memory", index, s.bytes));
  move(bound, memory);
  if (s.only_step != storage::none) arguments_[s.only_step].output_use = use;
}

void program::implementation::require_bound() const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const storage& s = plan_.storages[i];
    if (s.where == storage::place::source && s.bytes != 0 && memory_[i].address == nullptr)
      throw std::logic_error(fmt::format("program: nothing is bound to '{}'", s.name));
  }
}

void program::implementation::run(const stream& where, std::uint64_t number, const completion& done) {
  if (const auto* gpu = std::get_if<cuda_stream>(&where)) {
    if (done) throw std::logic_error("program: a run on a GPU ends after run() has returned");
    cuda::begin_step(*gpu, number);
    return queue(*gpu, {});
  }
  if (!arena_.is_on_host()) throw std::logic_error("program: one of a GPU cannot run on the host");
  require_bound();
  std::size_t running = 0;
  try {
    for (; running < plan_.steps.size(); ++running) run_step(where, running, number);
  } catch (const std::out_of_range& e) {
    throw std::out_of_range(fmt::format("{}: {}", plan_.steps[running].words, e.what()));
  }
  if (done) done();
}

void program::implementation::queue(const cuda_stream& where,
                                    const std::function<void(std::string_view)>& queued) {
  if (arena_.is_on_host()) throw std::logic_error("program: one of the host cannot run on a GPU");
  require_bound();
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    cuda_stream s = where;
    s.operation = static_cast<std::uint32_t>(i);
    run_step(s, i, 0); // kernels read the step's number from the stream's status
    if (queued) queued(plan_.steps[i].words);
  }
}

void program::implementation::run_step(const stream& s, std::size_t step, std::uint64_t number) {
  const arguments& a = arguments_[step];
  plan_.steps[step].work->run(s, {a.inputs, a.outputs, scratch_, number, a.output_use});
}

void program::implementation::raise(const cuda::fault_word& fault) const {
  try {
    cuda::raise(fault);
  } catch (const std::out_of_range& e) {
    if (fault.operation() >= plan_.steps.size()) throw; // of another program of the queue
    throw std::out_of_range(fmt::format("{}: {}", plan_.steps[fault.operation()].words, e.what()));
  }
}

namespace {

device_queue& queue_of_host() {
  static host_queue host; // it has no state
  return host;
}

program_plan plan_for(const graph& model, std::span<const value> fetches, std::span<const value> given,
                      const device_queue& place, std::size_t handed_on) {
  const auto* gpu = std::get_if<cuda_stream>(&place.where());
  if (!gpu) return plan_program(model, fetches, given);
  return plan_program(model, fetches, given, device_kind::cuda, gpu->products->precision(), handed_on);
}

} // namespace

program::program(const graph& model, std::span<const value> fetches, std::span<const value> given)
    : program(model, fetches, given, queue_of_host()) {}
program::program(const graph& model, std::span<const value> fetches, std::span<const value> given,
                 device_queue& place, std::size_t handed_on)
    : self_(std::make_unique<implementation>(model, plan_for(model, fetches, given, place, handed_on),
                                             place)) {}
program::~program() = default;
program::program(program&&) noexcept = default;
program& program::operator=(program&&) noexcept = default;

void program::bind(const value& source, const void* memory) { self_->bind(source, memory); }
void program::bind_fetch(std::size_t index, void* memory, next_use use) {
  self_->bind_fetch(index, memory, use);
}
std::size_t program::fetch_bytes(std::size_t index) const { return self_->fetch_bytes(index); }
const void* program::fetched(std::size_t index) const { return self_->fetched(index); }
bool program::needs(const value& source) const { return self_->needs(source); }
void program::run(const stream& s, std::uint64_t step, const completion& done) { self_->run(s, step, done); }
void program::queue(const cuda_stream& s, const std::function<void(std::string_view)>& queued) {
  self_->queue(s, queued);
}
void program::raise(const cuda::fault_word& fault) const { self_->raise(fault); }
std::size_t program::arena_bytes() const noexcept { return self_->arena_bytes(); }
std::size_t program::kernel_count() const noexcept { return self_->kernel_count(); }

} // namespace mailgrad
