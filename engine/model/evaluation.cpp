#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/softmax.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::size_t logits_fetch = 0;
constexpr std::size_t loss_fetch = 1;

constexpr const char* of_weights = "the weights that are tested";
constexpr std::size_t most_samples = 256;
/// Of texts on a GPU.
constexpr std::size_t most_tokens = 65536, most_logits = std::size_t{1} << 24;

std::unique_ptr<device_queue> queue_on(device d) {
  if (d.kind == device_kind::cuda) return std::make_unique<cuda::gpu_queue>(d.index);
  return std::make_unique<host_queue>();
}

/// With more classes nobody reads the matrix, and it takes more memory than the weights.
constexpr std::size_t most_confused = 1024;

bool counts_confusion(const model_request& r) {
  return r.wanted == answer::a_class && r.features != feature_kind::tokens && r.classes <= most_confused;
}

struct score {
  bool answers_alike = false; ///< whatever the sample
  std::size_t labels = 0;
  std::size_t correct = 0;
  double squares = 0; ///< of the distances to the targets
  std::size_t samples = 0;
  double loss = 0;                      ///< sum over the samples
  std::vector<std::uint64_t> confusion; ///< as in evaluation; empty: not counted
};

void count_answers(std::span<const float> logits, const batch& inputs, std::size_t classes, score& sum) {
  const auto labels = inputs.labels.values<std::int32_t>();
  std::int32_t right = 0;
  count_right_labels(host_stream{}, logits.data(), labels.data(), &right, labels.size(), classes);
  sum.correct += static_cast<std::size_t>(right);
  if (sum.confusion.empty()) return;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span row = logits.subspan(i * classes, classes);
    const auto answer = std::ranges::max_element(row) - row.begin();
    ++sum.confusion[static_cast<std::size_t>(labels[i]) * classes + static_cast<std::size_t>(answer)];
  }
}

void add_distances(std::span<const float> answers, const batch& inputs, score& sum) {
  const auto targets = inputs.labels.values();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double distance = static_cast<double>(answers[i]) - static_cast<double>(targets[i]);
    sum.squares += distance * distance;
  }
}

void add_score(forward_pass& pass, const weight_addresses& weights, const dataset& samples,
               std::span<const std::uint32_t> which, std::size_t classes, score& sum) {
  const std::span<const float> logits = pass.run(weights, samples, which);
  sum.answers_alike = !pass.reads_samples();
  if (samples.has_targets())
    add_distances(logits, pass.inputs(), sum);
  else
    count_answers(logits, pass.inputs(), classes, sum);
  sum.labels += pass.inputs().labels.size();
  sum.samples += which.size();
  sum.loss += static_cast<double>(pass.loss()) * static_cast<double>(which.size());
}

/// The samples with arbitrary labels, because a model has an input for labels even when it predicts.
dataset with_any_answers(const named_arrays& samples, const model_request& request) {
  const std::size_t n = samples.samples();
  if (request.wanted == answer::a_class)
    return dataset::from(samples, {{n}, std::vector<std::int32_t>(n)}, request.classes);
  if (request.target_dims.rank() == 0) return dataset::from(samples, {{n}, std::vector<float>(n)});
  const shape dims{n, request.outputs()};
  return dataset::from(samples, {dims, std::vector<float>(dims.size())});
}

} // namespace

placed_model::placed_model(const model_function& build, const model_request& request,
                           const parameter_layout& layout, const bound_model::choose_fetches& choose,
                           device_queue& place) {
  std::size_t fetches = 0;
  model_.emplace(
      build, request, layout,
      [&](graph& g, const model_outputs& outputs) {
        std::vector<value> chosen = choose(g, outputs);
        fetches = chosen.size();
        return chosen;
      },
      place);
  if (auto* const gpu = dynamic_cast<cuda::gpu_queue*>(&place)) gpu_.emplace(part_on(*gpu, fetches));
}

placed_model::~placed_model() {
  if (gpu_) finish_for_good(gpu_->place);
}

/// The arena has all values that are fetched, at addresses that stay.
placed_model::gpu_part placed_model::part_on(cuda::gpu_queue& place, std::size_t fetches) {
  const std::size_t inputs = model_->sources().lay_side_by_side([](const auto&, std::size_t) {});
  std::size_t results = 0;
  std::vector<fetched_value> values;
  for (std::size_t i = 0; i < fetches; ++i) {
    const std::size_t bytes = model_->code().fetch_bytes(i);
    values.push_back({model_->code().fetched(i), bytes, std::exchange(results, results + aligned(bytes))});
  }
  // Pinned memory would else wake the first GPU.
  cuda::runtime::make_current(std::get<cuda_stream>(place.where()).device);
  gpu_part made{place, cuda::pinned_block(inputs), place.allocate(inputs), std::move(values),
                cuda::pinned_block(results)};
  model_->sources().bind_staged(model_->code(), made.inputs.on<std::byte>(place.where()).data());
  return made;
}

void placed_model::run(const batch& inputs, const weight_addresses& weights) {
  if (gpu_) return run_on_gpu(inputs, weights);
  model_->bind(inputs, weights);
  model_->code().run(host_stream{}, 0, [] {});
}

void placed_model::run_on_gpu(const batch& inputs, const weight_addresses& weights) {
  gpu_part& gpu = *gpu_;
  const cuda_stream& s = std::get<cuda_stream>(gpu.place.where());
  cuda::runtime::make_current(s.device);
  model_->sources().stage(inputs, gpu.staged.as<std::byte>().data());
  for (const auto& v : model_->sources().variables()) model_->code().bind(v.what, weights.of(v.index));
  cuda::runtime::copy(s.stream, gpu.inputs.on<std::byte>(gpu.place.where()).data(),
                      gpu.staged.as<std::byte>().data(), gpu.staged.bytes());
  model_->code().run(gpu.place.where(), 0, {});
  for (const fetched_value& v : gpu.values)
    cuda::runtime::copy(s.stream, gpu.seen.as<std::byte>().data() + v.offset, v.on_gpu, v.bytes);
  if (const auto fault = gpu.place.take_fault()) model_->code().raise(*fault);
}

const float* placed_model::fetched(std::size_t index) {
  if (!gpu_) return static_cast<const float*>(model_->code().fetched(index));
  return reinterpret_cast<const float*>(gpu_->seen.as<std::byte>().data() + gpu_->values[index].offset);
}

forward_pass::forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
                           const dataset& samples, std::size_t size, bool with_loss, device_queue& place)
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

tested_model::tested_model(model_function build, model_request request, const parameter_layout& layout,
                           std::unique_ptr<device_queue> place)
    : build_(std::move(build)), request_(std::move(request)), layout_(layout), place_(std::move(place)) {}

tested_model::tested_model(model_function build, model_request request, const parameter_layout& layout,
                           device place)
    : tested_model(std::move(build), std::move(request), layout, queue_on(place)) {}

/// From now on these are tested.
memory& tested_model::own_weights() {
  if (copy_.bytes() == 0)
    copy_ = naming_memory(of_weights, [this] { return place_->allocate(layout_.size() * sizeof(float)); });
  weights_ = weight_addresses::in_one_piece(layout_, copy_.on<float>(place_->where()).data());
  theirs_ = {};
  return copy_;
}

/// By way of memory that copies to a GPU do not have to wait for.
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
  place_->finish(); // before the memory goes that the queue still reads and writes
  passes_.clear();
  return true;
}

std::size_t tested_model::samples_at_once() const noexcept {
  if (!is_there() || request_.features != feature_kind::tokens) return most_samples;
  const std::size_t window = std::max<std::size_t>(1, request_.sample_dims.size());
  const std::size_t tokens = std::min(most_tokens, most_logits / std::max<std::size_t>(1, request_.classes));
  return std::clamp<std::size_t>(tokens / window, 1, most_samples);
}

std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const named_arrays& samples) {
  if (request.features == feature_kind::tokens)
    throw std::invalid_argument("predict: the model reads tokens, and arrays hold none");
  return predict(build, request, layout, parameters, with_any_answers(samples, request));
}

std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const dataset& samples) {
  tested_model model(build, request, layout);
  model.use("predict", parameters);
  return predict(model, samples);
}

std::vector<float> predict(tested_model& model, const dataset& all) {
  require_readable(model.request(), all);
  const std::size_t at_once = model.samples_at_once();
  std::vector<float> answers;
  answers.reserve(all.size() * model.request().outputs());
  std::vector<std::uint32_t> which;
  forward_pass* pass = nullptr;
  for (std::size_t first = 0; first < all.size(); first += at_once) {
    const std::size_t count = std::min(at_once, all.size() - first);
    if (which.size() != count) pass = &model.pass_over(all, count, false);
    which.resize(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    const auto logits = pass->run(model.weights(), all, which);
    answers.insert(answers.end(), logits.begin(), logits.end());
  }
  return answers;
}

evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop) {
  tested_model model(build, std::move(request), layout);
  model.use("evaluate", parameters);
  return evaluate(model, samples, stop);
}

evaluation evaluate(tested_model& model, const dataset& samples, const std::function<bool()>& stop) {
  const model_request& request = model.request();
  require_readable(request, samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0U);
  score sum;
  if (counts_confusion(request)) sum.confusion.resize(request.classes * request.classes);
  const std::size_t at_once = model.samples_at_once();
  forward_pass* pass = nullptr;
  std::span<const std::uint32_t> which;
  for (std::size_t i = 0; i < order.size() && !(stop && stop()); i += at_once) {
    const std::size_t count = std::min(at_once, order.size() - i);
    if (which.size() != count) pass = &model.pass_over(samples, count, true);
    which = std::span<const std::uint32_t>(order).subspan(i, count);
    add_score(*pass, model.weights(), samples, which, request.classes, sum);
  }
  const auto mean = [](double total, std::size_t n) {
    return total / static_cast<double>(std::max<std::size_t>(1, n));
  };
  evaluation e;
  e.loss = mean(sum.loss, sum.samples);
  e.whole = sum.samples == samples.size();
  if (samples.has_targets())
    e.rmse = std::sqrt(mean(sum.squares, sum.labels));
  else if (!sum.answers_alike)
    e.accuracy = mean(static_cast<double>(sum.correct), sum.labels);
  if (!sum.answers_alike) e.confusion = std::move(sum.confusion);
  return e;
}

} // namespace mailgrad
