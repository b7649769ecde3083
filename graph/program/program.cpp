#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/fail_with.hpp>

namespace mailgrad {

/// The memory of a program, and the arguments of its kernels, which change with the addresses.
struct program::implementation {
  implementation(const graph& g, program_plan made, device_queue& place);

  struct bound_memory {
    const void* address = nullptr;
    std::vector<const void**> uses; ///< the arguments of kernels that are this address
  };
  /// What the kernel of a step is called with.
  struct arguments {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    next_use output_use = next_use::soon;
  };
  std::size_t storage_of_fetch(std::size_t index) const {
    if (index < plan.fetches.size()) return plan.fetches[index];
    fail_with<std::invalid_argument>("program: there is no fetch {}; it has {}", index, plan.fetches.size());
  }

  /// Constants are 4 bytes an element, whatever their type.
  void keep_constants(device_queue& place) {
    for (storage& s : plan.storages) {
      if (s.where != storage::place::constant) continue;
      memory copy = place.allocate(s.bytes);
      place.write({static_cast<const float*>(s.constant), s.bytes / sizeof(float)}, copy);
      s.constant = copy.on<std::byte>(place.where()).data();
      constants.push_back(std::move(copy));
    }
  }

  /// A queue that never multiplies does without.
  void take_workspace_for_products(const device_queue& place) const {
    const auto* const gpu = std::get_if<cuda_stream>(&place.where());
    const auto multiplies = [](const planned_step& s) {
      return dynamic_cast<const multiplying*>(s.work.get()) != nullptr;
    };
    if (gpu != nullptr && std::ranges::any_of(plan.steps, multiplies)) gpu->products->take_workspace();
  }

  void require_bound() const {
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const storage& s = plan.storages[i];
      if (s.where == storage::place::source && s.bytes != 0 && bound[i].address == nullptr)
        fail_with<std::logic_error>("program: nothing is bound to '{}'", s.name);
    }
  }

  void run_step(const stream& s, std::size_t step, std::uint64_t number) {
    const arguments& a = called[step];
    plan.steps[step].work->run(s, {a.inputs, a.outputs, scratch, number, a.output_use});
  }

  void link() {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const planned_step& s = plan.steps[i];
      arguments& a = called[i];
      a.inputs.resize(s.inputs.size());
      a.outputs.resize(s.outputs.size());
      for (std::size_t k = 0; k < s.inputs.size(); ++k) bound[s.inputs[k]].uses.push_back(&a.inputs[k]);
      for (std::size_t k = 0; k < s.outputs.size(); ++k)
        bound[s.outputs[k]].uses.push_back(const_cast<const void**>(&a.outputs[k]));
    }
    for (std::size_t s = 0; s < bound.size(); ++s) {
      const storage& first = plan.storages[s];
      move(s, first.where == storage::place::arena ? values + first.offset : first.constant);
    }
  }

  void move(std::size_t storage, const void* to) {
    bound[storage].address = to;
    for (const void** use : bound[storage].uses) *use = to;
  }

  const graph& model;
  program_plan plan;
  memory arena; ///< values, then the scratch memory that all kernels use in turn
  std::byte* values;
  void* scratch;
  std::vector<memory> constants;   ///< copies of those that the queue's kernels cannot read where they are
  std::vector<bound_memory> bound; ///< by storage
  std::vector<arguments> called;   ///< by step
};

program::implementation::implementation(const graph& g, program_plan made, device_queue& place)
    : model(g), plan(std::move(made)), arena(place.allocate(plan.arena_bytes + aligned(plan.scratch_bytes))),
      values(arena.on<std::byte>(place.where()).data()), scratch(values + plan.arena_bytes),
      bound(plan.storages.size()), called(plan.steps.size()) {
  if (!arena.is_on_host()) keep_constants(place);
  take_workspace_for_products(place);
  link();
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

void program::bind(const value& source, const void* memory) {
  if (!source.is_of(self_->model)) throw graph_error("bind: the value belongs to another graph");
  const std::size_t s = self_->plan.storage_of(source);
  if (s != storage::none && self_->plan.storages[s].where == storage::place::source) self_->move(s, memory);
}

void program::bind_fetch(std::size_t index, void* memory, next_use use) {
  const std::size_t bound = self_->storage_of_fetch(index);
  const storage& s = self_->plan.storages[bound];
  if (memory == nullptr && s.bytes != 0)
    fail_with<std::invalid_argument>("program: fetch {} of {} bytes is bound to no memory", index, s.bytes);
  self_->move(bound, memory);
  if (s.only_step != storage::none) self_->called[s.only_step].output_use = use;
}

std::size_t program::fetch_bytes(std::size_t index) const {
  return self_->plan.storages[self_->storage_of_fetch(index)].bytes;
}
const void* program::fetched(std::size_t index) const {
  return self_->bound[self_->storage_of_fetch(index)].address;
}
bool program::needs(const value& source) const {
  return source.is_of(self_->model) && self_->plan.storage_of(source) != storage::none;
}

void program::run(const stream& where, std::uint64_t number, const completion& done) {
  if (const auto* gpu = std::get_if<cuda_stream>(&where)) {
    if (done) throw std::logic_error("program: a run on a GPU ends after run() has returned");
    cuda::begin_step(*gpu, number);
    return queue(*gpu, {});
  }
  if (!self_->arena.is_on_host()) throw std::logic_error("program: one of a GPU cannot run on the host");
  self_->require_bound();
  std::size_t running = 0;
  try {
    for (; running < kernel_count(); ++running) self_->run_step(where, running, number);
  } catch (const std::out_of_range& e) {
    fail_with<std::out_of_range>("{}: {}", self_->plan.steps[running].words, e.what());
  }
  if (done) done();
}

void program::queue(const cuda_stream& where, const std::function<void(std::string_view)>& queued) {
  if (self_->arena.is_on_host()) throw std::logic_error("program: one of the host cannot run on a GPU");
  self_->require_bound();
  for (std::size_t i = 0; i < kernel_count(); ++i) {
    cuda_stream s = where;
    s.operation = static_cast<std::uint32_t>(i);
    self_->run_step(s, i, 0); // kernels read the step's number from the stream's status
    if (queued) queued(self_->plan.steps[i].words);
  }
}

void program::raise(const cuda::fault_word& fault) const {
  try {
    cuda::raise(fault);
  } catch (const std::out_of_range& e) {
    if (fault.operation() >= kernel_count()) throw; // of another program of the queue
    fail_with<std::out_of_range>("{}: {}", self_->plan.steps[fault.operation()].words, e.what());
  }
}

std::size_t program::arena_bytes() const noexcept { return self_->arena.bytes(); }
std::size_t program::kernel_count() const noexcept { return self_->plan.steps.size(); }

} // namespace mailgrad
