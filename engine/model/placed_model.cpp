#include <mailgrad/engine/model/placed_model.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <cstring>
#include <utility>

namespace mailgrad {

namespace {

std::size_t bytes_of_input(const bound_sources::input_binding& input) {
  return input.what.dims().size() * byte_size(input.what.type().type);
}

} // namespace

placed_model::placed_model(const model_function& build, const model_request& request,
                           const parameter_layout& layout, const bound_model::choose_fetches& choose,
                           lane& place) {
  std::size_t fetches = 0;
  model_.emplace(
      build, request, layout,
      [&](graph& g, const model_outputs& outputs) {
        std::vector<value> chosen = choose(g, outputs);
        fetches = chosen.size();
        return chosen;
      },
      place);
  if (auto* const card = dynamic_cast<cuda::card_lane*>(&place)) card_.emplace(part_on(*card, fetches));
}

placed_model::~placed_model() {
  if (!card_) return;
  try {
    card_->place.finish(); // before the memory goes that the lane still reads and writes
  } catch (const device_error&) {
    // The card is lost, and nothing of it runs any more.
  }
}

/// The arena has all values that are fetched, at addresses that stay.
placed_model::card_part placed_model::part_on(cuda::card_lane& place, std::size_t fetches) {
  std::size_t inputs = 0, results = 0;
  for (const auto& input : model_->sources().inputs()) inputs += aligned(bytes_of_input(input));
  std::vector<fetched_value> values;
  for (std::size_t i = 0; i < fetches; ++i) {
    const std::size_t bytes = model_->code().fetch_bytes(i);
    values.push_back({model_->code().fetched(i), bytes, std::exchange(results, results + aligned(bytes))});
  }
  // Pinned memory would else wake the first card.
  cuda::runtime::make_current(std::get<cuda_stream>(place.where()).device);
  card_part made{place, cuda::pinned_block(inputs), place.allocate(inputs), std::move(values),
                 cuda::pinned_block(results)};
  const std::byte* on_card = made.inputs.on<std::byte>(place.where()).data();
  for (const auto& input : model_->sources().inputs()) {
    model_->code().bind(input.what, on_card);
    on_card += aligned(bytes_of_input(input));
  }
  return made;
}

void placed_model::run(const batch& inputs, const weight_addresses& weights) {
  if (card_) return run_on_card(inputs, weights);
  model_->bind(inputs, weights);
  model_->code().run(host_stream{}, 0, [] {});
}

void placed_model::run_on_card(const batch& inputs, const weight_addresses& weights) {
  card_part& card = *card_;
  const cuda_stream& s = std::get<cuda_stream>(card.place.where());
  cuda::runtime::make_current(s.device);
  std::byte* staged = card.staged.as<std::byte>().data();
  for (const auto& input : model_->sources().inputs()) {
    std::memcpy(staged, input.in(inputs), bytes_of_input(input));
    staged += aligned(bytes_of_input(input));
  }
  for (const auto& v : model_->sources().variables()) model_->code().bind(v.what, weights.of(v.index));
  cuda::runtime::copy(s.stream, card.inputs.on<std::byte>(card.place.where()).data(),
                      card.staged.as<std::byte>().data(), card.staged.bytes());
  model_->code().run(card.place.where(), 0, {});
  for (const fetched_value& v : card.values)
    cuda::runtime::copy(s.stream, card.seen.as<std::byte>().data() + v.offset, v.on_card, v.bytes);
  if (const auto fault = card.place.take_fault()) model_->code().raise(*fault);
}

const float* placed_model::fetched(std::size_t index) {
  if (!card_) return static_cast<const float*>(model_->code().fetched(index));
  return reinterpret_cast<const float*>(card_->seen.as<std::byte>().data() + card_->values[index].offset);
}

} // namespace mailgrad
