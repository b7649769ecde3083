#include <mailgrad/engine/model/tested_model.hpp>

#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

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

namespace {

constexpr std::size_t logits_fetch = 0;
constexpr std::size_t loss_fetch = 1;

} // namespace

forward_pass::forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
                           const dataset& samples, std::size_t size, bool with_loss, lane& place)
    : outputs_(size * request.outputs()) {
  if (request.features == feature_kind::tokens) outputs_ *= request.sample_dims.size();
  request.batch = size;
  shape_batch(samples, size, room_for_entries(samples, size), inputs_);
  request.nonzeros = inputs_.columns.size();
  request.purpose = phase::evaluation;
  model_.emplace(
      build, request, layout,
      [with_loss](graph&, const model_outputs& outputs) {
        return with_loss ? std::vector{outputs.logits, outputs.loss} : std::vector{outputs.logits};
      },
      place);
}

std::span<const float> forward_pass::run(const weight_addresses& weights, const dataset& samples,
                                         std::span<const std::uint32_t> which) {
  fill_batch(samples, which, inputs_);
  model_->run(inputs_, weights);
  return {model_->fetched(logits_fetch), outputs_};
}

float forward_pass::loss() { return *model_->fetched(loss_fetch); }

weight_addresses addresses_of(const char* caller, std::span<const float> parameters,
                              const parameter_layout& layout) {
  if (parameters.size() != layout.size())
    throw shape_error(
        fmt::format("{}: {} weights, where the layout has {}", caller, parameters.size(), layout.size()));
  weight_addresses weights(layout);
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    weights.use(s, parameters.data() + layout.shard(s).begin);
  return weights;
}

namespace {

constexpr const char* of_weights = "the weights that are tested";
constexpr std::size_t most_samples = 256;
/// Of texts on a card.
constexpr std::size_t most_tokens = 65536, most_logits = std::size_t{1} << 24;

std::unique_ptr<lane> lane_on(device d) {
  if (d.kind == device_kind::cuda) return std::make_unique<cuda::card_lane>(d.index);
  return std::make_unique<host_lane>();
}

} // namespace

tested_model::tested_model(model_function build, model_request request, const parameter_layout& layout,
                           std::unique_ptr<lane> place)
    : build_(std::move(build)), request_(std::move(request)), layout_(layout), place_(std::move(place)) {}

tested_model::tested_model(model_function build, model_request request, const parameter_layout& layout,
                           device place)
    : tested_model(std::move(build), std::move(request), layout, lane_on(place)) {}

tested_model::~tested_model() {
  try {
    place_->finish(); // before the memory goes that the lane still reads and writes
  } catch (const device_error&) {
    // The card is lost, and nothing of it runs any more.
  }
}

/// From now on these are tested.
memory& tested_model::own_weights() {
  if (copy_.bytes() == 0)
    copy_ = naming_memory(of_weights, [this] { return place_->allocate(layout_.size() * sizeof(float)); });
  weights_ = weight_addresses::in_one_piece(layout_, copy_.on<float>(place_->where()).data());
  theirs_ = {};
  return copy_;
}

/// By way of memory that copies to a card do not have to wait for.
void tested_model::copy_from_host(std::span<const float> from, std::size_t first) {
  const stream& s = place_->where();
  memory staged = naming_memory(of_weights, [&] { return place_->lend_on_host(from.size_bytes()); });
  std::ranges::copy(from, staged.on_host<float>().begin());
  copy_bytes(s, own_weights().on<float>(s).data() + first, staged.on_host<float>().data(), from.size_bytes());
  place_->finish();
}

void tested_model::use(const char* caller, std::span<const float> parameters) {
  weight_addresses on_host = addresses_of(caller, parameters, layout_);
  if (is_there()) return copy_from_host(parameters, 0);
  weights_ = std::move(on_host);
  theirs_ = parameters;
}

shard_range tested_model::range_of(std::uint32_t shard, std::size_t values) const {
  if (shard >= layout_.shard_count())
    throw std::invalid_argument(fmt::format("weights: shard {} of {}", shard, layout_.shard_count()));
  const shard_range range = layout_.shard(shard);
  if (values != range.size()) throw shape_error("weights of a shard", shape{values}, shape{range.size()});
  return range;
}

void tested_model::use(std::uint32_t shard, std::span<const float> on_host) {
  copy_from_host(on_host, range_of(shard, on_host.size()).begin);
}

void tested_model::use(std::uint32_t shard, const snapshot& values) {
  const shard_range range = range_of(shard, values.size());
  if (!values) return;
  if (values.owner()->is_on_host()) return copy_from_host(values.on_host(), range.begin);
  const stream& s = place_->where();
  const std::span<const float> from = values.on(s);
  place_->wait_for(values.ready());
  copy_bytes(s, own_weights().on<float>(s).data() + range.begin, from.data(), from.size_bytes());
  place_->finish(); // the shard may write there when nobody has the snapshot any more
}

void tested_model::copy_weights(std::span<float> to) {
  if (!weights_) throw std::logic_error("tested_model: no weights have been given");
  if (!theirs_.empty()) {
    std::ranges::copy(theirs_, to.begin());
    return;
  }
  memory seen = naming_memory(of_weights, [&] { return place_->lend_on_host(to.size_bytes()); });
  place_->copy_to_host(copy_, 0, seen);
  place_->finish();
  std::ranges::copy(seen.on_host<float>(), to.begin());
}

forward_pass& tested_model::pass_over(const dataset& samples, std::size_t size, bool with_loss) {
  const pass_key key{size, room_for_entries(samples, size), with_loss};
  if (const auto known = passes_.find(key); known != passes_.end()) return *known->second;
  if (!is_there()) passes_.clear(); // two would take twice the memory
  const auto words = [size] { return fmt::format("the values and inputs of a test of {} samples", size); };
  auto made = naming_memory(words, [&] {
    return with_room([&] {
      return std::make_unique<forward_pass>(build_, request_, layout_, samples, size, with_loss, *place_);
    });
  });
  return *passes_.emplace(key, std::move(made)).first->second;
}

/// Returns false if there was none.
bool tested_model::drop_passes() {
  if (passes_.empty()) return false;
  place_->finish(); // before the memory goes that the lane still reads and writes
  passes_.clear();
  return true;
}

std::size_t tested_model::samples_at_once() const noexcept {
  if (!is_there() || request_.features != feature_kind::tokens) return most_samples;
  const std::size_t window = std::max<std::size_t>(1, request_.sample_dims.size());
  const std::size_t tokens = std::min(most_tokens, most_logits / std::max<std::size_t>(1, request_.classes));
  return std::clamp<std::size_t>(tokens / window, 1, most_samples);
}

} // namespace mailgrad
