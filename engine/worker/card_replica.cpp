#include <mailgrad/engine/worker/card_replica.hpp>

#include <mailgrad/engine/model/training_fetches.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/cuda/step_record.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace mailgrad {

namespace {

std::uint32_t card_of(const model_request& request) {
  const device d = request.devices.at(0);
  if (d.kind != device_kind::cuda)
    throw device_error(world_errc::no_such_device, fmt::format("{} is no card", to_string(d)));
  return d.index;
}

const cuda_stream& stream_of(const lane& l) { return std::get<cuda_stream>(l.where()); }

std::size_t input_bytes(const value& v) { return v.dims().size() * byte_size(v.type().type); }

} // namespace

/// The model for one batch size. Its inputs lie side by side, in pinned memory and on the card.
class card_replica::training_program {
public:
  training_program(const card_replica& of, const model_request& request, cuda::card_lane& place)
      : lane_(place), model_(
                          of.build_, request, *of.layout_,
                          [&](graph& g, const model_outputs& outputs) {
                            list_ = loss_and_gradients(g, outputs, *of.layout_, request);
                            return list_.fetches;
                          },
                          place),
        covered_(coverage_of(*of.layout_, list_.dense_variables())) {
    if (!list_.sparse.empty())
      throw device_error(
          world_errc::no_such_device,
          fmt::format("the model has tables, whose gradients {} cannot compute yet", to_string(of.place_)));
    place_inputs();
  }

  /// Binds what every step of this program uses.
  void bind(const float* weights, float* gradient, float* loss, const parameter_layout& layout) {
    for (const auto& v : model_.sources().variables())
      model_.code().bind(v.what, weights + layout.variables()[v.index].offset);
    for (const dense_fetch& f : list_.dense) model_.code().bind_fetch(f.index, gradient + f.offset);
    model_.code().bind_fetch(training_fetches::loss, loss);
  }

  /// Copies the batch to pinned memory.
  ///
  /// Errors  graph_error for a batch of other samples.
  void stage(const batch& inputs) {
    std::byte* to = staged_.as<std::byte>().data();
    for (const auto& input : model_.sources().inputs()) {
      std::memcpy(to, input.in(inputs), input_bytes(input.what));
      to += aligned(input_bytes(input.what));
    }
  }
  /// Queues the copy of the batch to the card.
  void send() {
    const auto on_card = inputs_.on<std::byte>(lane_.where());
    cuda::runtime::copy(stream_of(lane_).stream, on_card.data(), staged_.as<std::byte>().data(),
                        on_card.size());
  }

  program& code() { return model_.code(); }
  const std::shared_ptr<const coverage>& covered() const { return covered_; }

private:
  void place_inputs() {
    std::size_t bytes = 0;
    for (const auto& input : model_.sources().inputs()) bytes += aligned(input_bytes(input.what));
    staged_ = cuda::pinned_block(bytes);
    inputs_ = lane_.allocate(bytes);
    const std::byte* on_card = inputs_.on<std::byte>(lane_.where()).data();
    for (const auto& input : model_.sources().inputs()) {
      model_.code().bind(input.what, on_card);
      on_card += aligned(input_bytes(input.what));
    }
  }

  cuda::card_lane& lane_;
  training_fetches list_;
  bound_model model_;
  std::shared_ptr<const coverage> covered_; ///< by the gradients that are fetched
  cuda::pinned_block staged_;
  memory inputs_; ///< on the card
};

card_replica::card_replica(model_function build, model_request request,
                           std::shared_ptr<const parameter_layout> layout, std::shared_ptr<mark_watch> watch)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)),
      place_(request_.devices.at(0)), watch_(std::move(watch)), lane_(card_of(request_)),
      shards_(layout_->shard_count()), staged_(layout_->size() * sizeof(float)),
      record_(sizeof(cuda::step_record)), weights_(lane_.allocate(staged_.bytes())),
      gradient_(lane_.allocate(layout_->dense_size() * sizeof(float))), loss_(lane_.allocate(sizeof(float))) {
}

card_replica::~card_replica() {
  on_end({}); // whoever is told may end with the replica
  try {
    lane_.finish(); // before the memory goes that the lane still reads and writes
  } catch (const device_error&) {
    // The card is lost, and nothing of it runs any more.
  }
}

void card_replica::on_end(std::function<void()> notice) {
  const std::lock_guard held(ending_->mutex);
  ending_->tell = std::move(notice);
}

std::shared_ptr<gradient> card_replica::make_gradient() const {
  cuda::runtime::make_current(place_.index); // pinned memory would else wake the first card
  return mailgrad::make_gradient(*layout_, cuda::pinned_memory);
}

void card_replica::use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) {
  if (shard >= shards_.size() || values == nullptr)
    throw std::invalid_argument(fmt::format("weights: {} for shard {} of {}", values ? "values" : "no values",
                                            shard, shards_.size()));
  shards_[shard] = values;
}

card_replica::training_program& card_replica::program_for(const batch& inputs) {
  auto& known = programs_[inputs.size];
  if (!known) {
    model_request request = request_;
    request.batch = inputs.size;
    auto made = std::make_unique<training_program>(*this, request, lane_);
    made->bind(weights_.on<float>(lane_.where()).data(), gradient_.on<float>(lane_.where()).data(),
               loss_.on<float>(lane_.where()).data(), *layout_);
    known = std::move(made);
  }
  return *known;
}

/// Copies the weights of all shards, which under hogwild other workers write to meanwhile.
void card_replica::stage_weights() {
  std::optional<racing_read> others_write;
  if (racing()) others_write.emplace();
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (shards_[s] == nullptr) throw std::invalid_argument(fmt::format("weights: none of shard {} yet", s));
    const shard_range range = layout_->shard(s);
    std::copy_n(shards_[s], range.size(), staged_.as<float>().data() + range.begin);
  }
}

step_state card_replica::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  cuda::runtime::make_current(place_.index);
  training_program& p = program_for(*inputs);
  p.stage(*inputs);
  stage_weights();
  out->source = inputs;
  if (out->covered != p.covered()) out->covered = p.covered();
  queued_ = std::make_unique<queued_step>(queued_step{&p, std::move(inputs), std::move(out)});
  try {
    queue();
  } catch (...) {
    abandon();
    throw;
  }
  return step_state::under_way;
}

void card_replica::queue() {
  const cuda_stream& s = stream_of(lane_);
  cuda::runtime::copy(s.stream, weights_.on<float>(lane_.where()).data(), staged_.as<float>().data(),
                      staged_.bytes());
  queued_->code->send();
  queued_->code->code().run(lane_.where(), queued_->inputs->number, {});
  cuda::runtime::copy(s.stream, queued_->out->dense.data(), gradient_.on<std::byte>(lane_.where()).data(),
                      gradient_.bytes());
  cuda::write_record(s, loss_.on<float>(lane_.where()).data(), &record_.as<cuda::step_record>().front());
  watch_->when_passed(lane_.record(), [ended = ending_](std::exception_ptr why) {
    const std::lock_guard held(ended->mutex);
    ended->failure = std::move(why);
    if (ended->tell) ended->tell();
  });
}

/// Waits for what was queued of a step that could not be queued whole, and forgets what it found.
void card_replica::abandon() noexcept {
  try {
    lane_.take_fault();
  } catch (const std::exception&) {
    // The card is lost, and the caller hears why.
  }
  queued_.reset();
}

float card_replica::end_step() {
  const auto ended = std::exchange(queued_, nullptr);
  if (ending_->failure) std::rethrow_exception(ending_->failure);
  const cuda::step_record& record = record_.as<cuda::step_record>().front();
  if (record.fault.cause != 0) ended->code->code().raise(record.fault);
  return record.loss;
}

std::string card_replica::waits_for() const {
  return fmt::format("the end of a step on {}", to_string(place_));
}

} // namespace mailgrad
