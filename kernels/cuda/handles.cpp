#include <mailgrad/kernels/cuda/handles.hpp>

namespace mailgrad::cuda {

pinned_block::pinned_block(std::size_t bytes) : memory_(runtime::allocate_pinned(bytes)), bytes_(bytes) {
  std::fill_n(static_cast<std::byte*>(memory_.get()), bytes, std::byte{0});
}

void captured_graph::abandon(void* stream) noexcept {
  try {
    runtime::destroy_graph(runtime::end_capture(stream));
  } catch (const device_error&) {
    // What broke the capture is thrown on.
  }
}

device_block allocate_on(const cuda_stream& s, std::size_t bytes) {
  device_block made({device_kind::cuda, s.device}, runtime::allocate(s.device, bytes), bytes,
                    [gpu = s.device](void* memory) { runtime::release(gpu, memory); });
  runtime::fill(s.stream, made.address(), 0, bytes);
  return made;
}

class gpu_event final : public device_event::driver_event {
public:
  explicit gpu_event(std::uint32_t gpu) : event_(gpu) {}

  bool passed() const override { return is_told() || has_passed(); }
  bool told() const override { return told_by_ ? is_told() : passed(); }
  bool tells() const noexcept override { return told_by_ != nullptr; }
  void wait_on(void* stream) const {
    runtime::make_current(event_.gpu());
    runtime::wait(stream, event_.get());
  }

  void record(void* stream, std::shared_ptr<const step_record> told_by, std::uint64_t ticket) {
    told_by_ = std::move(told_by);
    ticket_ = ticket;
    runtime::make_current(event_.gpu());
    runtime::record(event_.get(), stream);
  }

private:
  /// Anybody asks, such as the watch, whose thread has no GPU otherwise.
  bool has_passed() const {
    runtime::make_current(event_.gpu());
    return runtime::has_passed(event_.get());
  }
  bool is_told() const noexcept { return told_by_ && told_by_->has(ticket_); }

  owned_event event_;
  std::shared_ptr<const step_record> told_by_; ///< null if no record tells
  std::uint64_t ticket_ = 0;
};

device_event stream_events::record(std::shared_ptr<const step_record> told_by, std::uint64_t ticket) {
  auto found = std::ranges::find(events_, 1, [](const auto& e) { return e.use_count(); });
  if (found == events_.end()) found = events_.insert(events_.end(), std::make_shared<gpu_event>(gpu_));
  const std::shared_ptr<gpu_event> event = *found; // after this, what its last user has done is done
  event->record(stream_, std::move(told_by), ticket);
  return device_event(event);
}

void wait_on_event(void* stream, const device_event& m) {
  if (m.what() == nullptr) return;
  const auto* event = dynamic_cast<const gpu_event*>(m.what());
  if (event == nullptr) throw device_error(world_errc::wrong_place, "a GPU waits only for an event of a GPU");
  event->wait_on(stream);
}

device_event copy_stream::copy(void* to, const void* from, std::size_t bytes) {
  runtime::make_current(stream_.gpu());
  runtime::copy(stream_.get(), to, from, bytes);
  return events_.record();
}

memory copy_stream::allocate(std::size_t bytes) {
  return memory(allocate_on(cuda_stream{.stream = stream_.get(), .device = stream_.gpu()}, bytes));
}

void copy_stream::wait_for(const device_event& m) { wait_on_event(stream_.get(), m); }

void copy_stream::finish() {
  runtime::make_current(stream_.gpu());
  runtime::synchronise(stream_.get());
}

} // namespace mailgrad::cuda
