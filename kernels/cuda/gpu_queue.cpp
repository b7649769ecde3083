#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/fail_with.hpp>

namespace mailgrad::cuda {
namespace {

constexpr const char* of_queue = "what a stream keeps for its kernels";

} // namespace

block pinned_memory(std::size_t bytes) {
  const auto owner = std::make_shared<pinned_block>(bytes + block::alignment); // a line behind it may be read
  return block::in_memory_of(owner, owner->as<std::byte>().first(bytes));
}

gpu_queue::gpu_queue(std::uint32_t gpu, product_precision p, runtime::urgency when)
    : stream_(gpu, when), events_(gpu, stream_.get()),
      products_(naming_memory(of_queue, [&] { return make_products(gpu, p); })),
      status_(naming_memory(
          of_queue,
          [&] { return allocate_on({.stream = stream_.get(), .device = gpu}, sizeof(stream_status)); })),
      scratch_(naming_memory(
          of_queue, [&] { return allocate_on({.stream = stream_.get(), .device = gpu}, scratch_bytes); })),
      seen_(naming_memory(of_queue, [] { return pinned_block(sizeof(stream_status)); })),
      where_(cuda_stream{.stream = stream_.get(),
                         .products = products_.get(),
                         .status = static_cast<stream_status*>(status_.address()),
                         .scratch = scratch_.address(),
                         .scratch_bytes = scratch_bytes,
                         .device = gpu}) {}

gpu_queue::~gpu_queue() {
  try {
    finish(); // kernels still read the status and the scratch memory
  } catch (const device_error&) {
    // The GPU is lost, and nothing of it runs any more.
  }
}

memory gpu_queue::allocate(std::size_t bytes) { return memory(allocate_on(stream_of_gpu(), bytes)); }

void gpu_queue::write(std::span<const float> from, memory& to) {
  if (from.size_bytes() > to.bytes())
    throw shape_error("write", shape{from.size()}, shape{to.bytes() / sizeof(float)});
  if (from.empty()) return;
  forget_written();
  runtime::make_current(stream_.gpu()); // pinned memory would else wake the first GPU
  pinned_block values =
      naming_memory("values on their way to the GPU", [&] { return pinned_block(from.size_bytes()); });
  std::ranges::copy(from, values.as<float>().begin());
  runtime::copy(stream_.get(), to.on<float>(where_).data(), values.as<float>().data(), from.size_bytes());
  writes_.push_back({std::move(values), events_.record()});
}

/// The values of a shard's first weights would else be kept in pinned memory for the whole run.
void gpu_queue::forget_written() {
  std::erase_if(writes_, [](const write_under_way& w) { return w.done.passed(); });
}

memory gpu_queue::lend_on_host(std::size_t bytes) {
  forget_unwanted();
  const auto fits = [bytes](const lent_block& b) {
    return b.is_free() && b.memory->bytes() == bytes + block::alignment;
  };
  auto found = std::ranges::find_if(lent_, fits);
  if (found == lent_.end()) {
    runtime::make_current(stream_.gpu()); // pinned memory would else wake the first GPU
    found = lent_.insert(lent_.end(), {std::make_shared<pinned_block>(bytes + block::alignment)});
  }
  found->last = ++lendings_;
  return memory(block::in_memory_of(found->memory, found->memory->as<std::byte>().first(bytes)));
}

/// A checkpoint wants the same blocks each time, unless more gradients wait for their batch than usual.
void gpu_queue::forget_unwanted() {
  const std::uint64_t calls = 2 * lent_.size() + 16;
  std::erase_if(lent_, [&](const lent_block& b) { return b.is_free() && lendings_ - b.last > calls; });
}

void gpu_queue::copy_to_host(const memory& from, std::size_t first, memory& to) {
  require_part(from, first, to);
  if (to.bytes() == 0) return;
  runtime::make_current(stream_.gpu());
  runtime::copy(stream_.get(), to.on_host<std::byte>().data(), from.on<std::byte>(where_).data() + first,
                to.bytes());
}

void gpu_queue::wait_for(const device_event& m) { wait_on_event(stream_.get(), m); }

device_event gpu_queue::record() {
  forget_written();
  return events_.record();
}

device_event gpu_queue::record(std::shared_ptr<const step_record> told_by, std::uint64_t ticket) {
  return events_.record(std::move(told_by), ticket);
}

void gpu_queue::read(const memory& from, std::span<std::byte> to) {
  if (to.size() > from.bytes()) throw shape_error("read", shape{to.size()}, shape{from.bytes()});
  runtime::make_current(stream_.gpu());
  runtime::copy(stream_.get(), to.data(), from.on<std::byte>(where_).data(), to.size());
  finish();
}

void gpu_queue::finish() {
  runtime::make_current(stream_.gpu());
  runtime::synchronise(stream_.get());
}

std::optional<fault_word> gpu_queue::take_fault() {
  stream_status& seen = seen_.as<stream_status>().front();
  runtime::make_current(stream_.gpu());
  runtime::copy(stream_.get(), &seen, status_.address(), sizeof seen);
  finish();
  if (seen.fault.cause == 0) return std::nullopt;
  runtime::fill(stream_.get(), &stream_of_gpu().status->fault, 0, sizeof(fault_word));
  return seen.fault;
}

void raise(const fault_word& fault) {
  switch (fault.kind()) {
  case fault_kind::none:
    return;
  case fault_kind::label:
    fail_with<std::out_of_range>("label {}, but the logits have {} classes", fault.found(), fault.limit());
  case fault_kind::row:
    fail_with<std::out_of_range>("row {} of a table of {} rows", fault.found(), fault.limit());
  case fault_kind::column:
    fail_with<std::out_of_range>("column {} of rows of {} columns", fault.found(), fault.limit());
  case fault_kind::entries:
    fail_with<std::out_of_range>("row {} is entries from or to {} of {}", fault.element(), fault.found(),
                                 fault.limit());
  }
  fail_with(world_errc::device_failure, "a kernel noted fault {}", static_cast<std::uint32_t>(fault.kind()));
}

} // namespace mailgrad::cuda
