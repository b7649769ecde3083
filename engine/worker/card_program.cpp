#include <mailgrad/engine/worker/card_program.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>

#include <cstring>
#include <utility>

namespace mailgrad {

namespace {

std::size_t input_bytes(const value& v) { return v.dims().size() * byte_size(v.type().type); }

std::shared_ptr<cuda::step_record> pinned_record() {
  const auto owner = std::make_shared<cuda::pinned_block>(sizeof(cuda::step_record));
  return {owner, &owner->as<cuda::step_record>().front()};
}

} // namespace

card_program::card_program(const model_function& build, const model_request& request,
                           const parameter_layout& layout, cuda::card_lane& place, std::size_t sets,
                           bool rows_there)
    : lane_(place), rows_there_(rows_there), model_(
                                                 build, request, layout,
                                                 [&](graph& g, const model_outputs& outputs) {
                                                   list_ = loss_and_gradients(g, outputs, layout, request);
                                                   return list_.fetches;
                                                 },
                                                 place),
      reads_(model_.model(), model_.code(), model_.sources(), layout),
      covered_(coverage_of(layout, list_.dense_variables())), inputs_(sets) {
  std::size_t bytes = 0;
  for (const auto& input : model_.sources().inputs()) bytes += aligned(input_bytes(input.what));
  for (input_set& s : inputs_) s = {cuda::pinned_block(bytes), lane_.allocate(bytes), pinned_record()};
  place_rows();
  zeroed_ = lane_.record();
}

/// Places what each gradient of a table fetches, and binds it.
void card_program::place_rows() {
  std::size_t bytes = 0;
  const auto place = [&](std::size_t count) { return std::exchange(bytes, bytes + aligned(count * 4)); };
  for (const sparse_fetch& f : list_.sparse) {
    const std::size_t values = place(f.count * f.width);
    places_.push_back({values, f.rows || rows_there_ ? place(f.count) : 0});
  }
  if (bytes == 0) return;
  rows_ = lane_.allocate(bytes);
  std::byte* const first = rows_.on<std::byte>(lane_.where()).data();
  for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
    const sparse_fetch& f = list_.sparse[i];
    model_.code().bind_fetch(f.values, first + places_[i].values);
    if (f.rows) model_.code().bind_fetch(*f.rows, first + places_[i].rows);
  }
}

void card_program::prepare(gradient& out) const {
  if (rows_there_)
    prepare_on_card(out);
  else
    prepare_on_host(out);
}

/// Memory that is too small stays with the gradient, since the card would be waited for to free it.
void card_program::prepare_on_card(gradient& out) const {
  if (out.rows_on_card.bytes() < rows_.bytes()) {
    if (out.rows_on_card.bytes() > 0)
      out.held.push_back(std::make_shared<memory>(std::move(out.rows_on_card)));
    out.rows_on_card = lane_.allocate(rows_.bytes());
  }
  out.sparse_on_card.resize(list_.sparse.size());
  if (rows_.bytes() == 0) return;
  const std::byte* const first = std::as_const(out.rows_on_card).on<std::byte>(lane_.where()).data();
  for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
    const sparse_fetch& f = list_.sparse[i];
    out.sparse_on_card[i] = {f.variable,
                             f.width,
                             {reinterpret_cast<const std::int32_t*>(first + places_[i].rows), f.count},
                             {reinterpret_cast<const float*>(first + places_[i].values), f.count * f.width}};
  }
}

void card_program::prepare_on_host(gradient& out) const {
  if (out.sparse_memory.empty()) out.sparse_memory.resize(1);
  block& memory = out.sparse_memory.front();
  if (memory.bytes() < rows_.bytes()) memory = cuda::pinned_memory(rows_.bytes());
  out.sparse.resize(list_.sparse.size());
  for (std::size_t i = 0; i < list_.sparse.size(); ++i) {
    const sparse_fetch& f = list_.sparse[i];
    const rows_place& at = places_[i];
    const auto rows = f.rows
                          ? std::span(reinterpret_cast<const std::int32_t*>(memory.data() + at.rows), f.count)
                          : f.rows_in_batch->of(*out.source).values<std::int32_t>();
    out.sparse[i] = {f.variable,
                     f.width,
                     rows,
                     {reinterpret_cast<const float*>(memory.data() + at.values), f.count * f.width}};
  }
}

void card_program::fetch_rows(std::size_t set, gradient& out) const {
  if (rows_.bytes() == 0) return;
  void* const queue = std::get<cuda_stream>(lane_.where()).stream;
  const std::byte* const from = rows_.on<std::byte>(lane_.where()).data();
  if (!rows_there_) return cuda::runtime::copy(queue, out.sparse_memory.front().data(), from, rows_.bytes());
  std::byte* const to = out.rows_on_card.on<std::byte>(lane_.where()).data();
  cuda::runtime::copy(queue, to, from, rows_.bytes());
  for (std::size_t i = 0; i < list_.sparse.size(); ++i)
    if (const auto& part = list_.sparse[i].rows_in_batch)
      cuda::runtime::copy(queue, to + places_[i].rows, part_on_card(set, *part, *out.source),
                          list_.sparse[i].count * sizeof(std::int32_t));
}

const std::byte* card_program::part_on_card(std::size_t set, const batch_part& part, const batch& of) const {
  const std::byte* there = address_of(set);
  for (const auto& input : model_.sources().inputs()) {
    if (&input.part.of(of) == &part.of(of)) break;
    there += aligned(input_bytes(input.what));
  }
  return there;
}

void card_program::bind(const float* weights, float* loss, const parameter_layout& layout) {
  for (const auto& v : model_.sources().variables())
    model_.code().bind(v.what, weights + layout.variables()[v.index].offset);
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

cuda::kept_graphs::key card_program::use(std::size_t set, float* gradient) {
  const std::byte* on_card = address_of(set);
  for (const auto& input : model_.sources().inputs()) {
    model_.code().bind(input.what, on_card);
    on_card += aligned(input_bytes(input.what));
  }
  for (const dense_fetch& f : list_.dense) model_.code().bind_fetch(f.index, gradient + f.offset);
  return {this, address_of(set), gradient};
}

} // namespace mailgrad
