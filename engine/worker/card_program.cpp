#include <mailgrad/engine/worker/card_program.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace mailgrad {

namespace {

std::size_t input_bytes(const value& v) { return v.dims().size() * byte_size(v.type().type); }

} // namespace

card_program::card_program(const model_function& build, const model_request& request,
                           const parameter_layout& layout, cuda::card_lane& place)
    : lane_(place), model_(
                        build, request, layout,
                        [&](graph& g, const model_outputs& outputs) {
                          list_ = loss_and_gradients(g, outputs, layout, request);
                          return list_.fetches;
                        },
                        place),
      covered_(coverage_of(layout, list_.dense_variables())) {
  if (!list_.sparse.empty())
    throw device_error(world_errc::no_such_device,
                       fmt::format("the model has tables, whose gradients {} cannot compute yet",
                                   to_string(request.devices.at(0))));
  std::size_t bytes = 0;
  for (const auto& input : model_.sources().inputs()) bytes += aligned(input_bytes(input.what));
  for (input_set& s : inputs_) s = {cuda::pinned_block(bytes), lane_.allocate(bytes)};
  zeroed_ = lane_.record();
}

void card_program::bind(const float* weights, float* gradient, float* loss, const parameter_layout& layout) {
  for (const auto& v : model_.sources().variables())
    model_.code().bind(v.what, weights + layout.variables()[v.index].offset);
  for (const dense_fetch& f : list_.dense) model_.code().bind_fetch(f.index, gradient + f.offset);
  model_.code().bind_fetch(training_fetches::loss, loss);
}

void card_program::stage(std::size_t set, const batch& inputs) {
  std::byte* to = inputs_[set].staged.as<std::byte>().data();
  for (const auto& input : model_.sources().inputs()) {
    std::memcpy(to, input.in(inputs), input_bytes(input.what));
    to += aligned(input_bytes(input.what));
  }
}

void card_program::send(std::size_t set) {
  const cuda::pinned_block& from = inputs_[set].staged;
  cuda::runtime::copy(std::get<cuda_stream>(lane_.where()).stream, address_of(set),
                      from.as<std::byte>().data(), from.bytes());
}

mark card_program::send_beside(std::size_t set, cuda::copy_stream& beside) {
  beside.wait_for(std::exchange(zeroed_, {}));
  const cuda::pinned_block& from = inputs_[set].staged;
  return beside.copy(address_of(set), from.as<std::byte>().data(), from.bytes());
}

void card_program::use(std::size_t set) {
  const std::byte* on_card = address_of(set);
  for (const auto& input : model_.sources().inputs()) {
    model_.code().bind(input.what, on_card);
    on_card += aligned(input_bytes(input.what));
  }
}

} // namespace mailgrad
