#include <mailgrad/kernels/cuda/stream_mark.hpp>

#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/tensor/error.hpp>

#include <memory>

namespace mailgrad::cuda {

namespace {

/// A point of a card's stream.
class card_event final : public mark::event {
public:
  explicit card_event(std::uint32_t card) : event_(card) {}
  bool passed() const override { return runtime::has_passed(event_.get()); }
  void* get() const noexcept { return event_.get(); }

private:
  owned_event event_;
};

} // namespace

mark record_mark(std::uint32_t card, void* stream) {
  const auto event = std::make_shared<const card_event>(card);
  runtime::record(event->get(), stream);
  return mark(event);
}

void wait_for_mark(void* stream, const mark& m) {
  if (m.what() == nullptr) return;
  const auto* event = dynamic_cast<const card_event*>(m.what());
  if (event == nullptr)
    throw device_error(world_errc::device_failure, "a card waits only for a mark of a card");
  runtime::wait(stream, event->get());
}

} // namespace mailgrad::cuda
