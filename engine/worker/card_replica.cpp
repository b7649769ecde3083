#include <mailgrad/engine/worker/card_replica.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/cuda/step_record.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <fmt/format.h>

#include <algorithm>
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

} // namespace

card_replica::card_replica(model_function build, model_request request,
                           std::shared_ptr<const parameter_layout> layout, std::shared_ptr<mark_watch> watch,
                           std::size_t graphs)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)),
      place_(request_.devices.at(0)), watch_(std::move(watch)), lane_(card_of(request_)),
      beside_(place_.index), shards_(layout_->shard_count()), staged_(layout_->size() * sizeof(float)),
      record_(sizeof(cuda::step_record)), weights_(lane_.allocate(staged_.bytes())),
      gradient_(lane_.allocate(layout_->dense_size() * sizeof(float))), loss_(lane_.allocate(sizeof(float))),
      graphs_(graphs) {}

card_replica::~card_replica() {
  on_end({}); // whoever is told may end with the replica
  try {
    lane_.finish(); // before the memory goes that both streams still read and write
    beside_.finish();
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
  shards_[shard] = {values};
}

void card_replica::use_weights(std::uint32_t shard, const snapshot& values) {
  step_runner::use_weights(shard, values);
  if (queued_ || racing()) return; // the copy of the step under way may still read there
  stage_weights(shard);
  shards_[shard].staged = true;
}

card_program& card_replica::program_for(const batch& inputs) {
  auto& known = programs_[inputs.size];
  if (!known) {
    model_request request = request_;
    request.batch = inputs.size;
    auto made = std::make_unique<card_program>(build_, request, *layout_, lane_);
    made->bind(weights_.on<float>(lane_.where()).data(), gradient_.on<float>(lane_.where()).data(),
               loss_.on<float>(lane_.where()).data(), *layout_);
    known = std::move(made);
  }
  return *known;
}

void card_replica::stage_weights(std::uint32_t shard) {
  const shard_range range = layout_->shard(shard);
  std::copy_n(shards_[shard].values, range.size(), staged_.as<float>().data() + range.begin);
}

/// Copies the weights that may have changed since they were given: those that are no snapshot, to which under
/// hogwild other workers write meanwhile.
void card_replica::stage_other_weights() {
  std::optional<racing_read> others_write;
  if (racing()) others_write.emplace();
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    if (shards_[s].values == nullptr)
      throw std::invalid_argument(fmt::format("weights: none of shard {} yet", s));
    if (!shards_[s].staged) stage_weights(s);
  }
}

/// The batch goes to the set that the step under way does not read. Its last copy is over: either a step has
/// ended that read it, or it was of the batch that `next` replaces.
void card_replica::foresee(std::shared_ptr<const batch> next, std::function<void()> copied) {
  if (!next) return;
  if (foreseen_ && (foreseen_->inputs == next || !foreseen_->copied.passed())) return;
  const auto known = programs_.find(next->size);
  if (known == programs_.end()) return;
  foreseen_.reset();
  cuda::runtime::make_current(place_.index);
  card_program& p = *known->second;
  const std::size_t set = queued_ && queued_->code == &p ? card_program::other(queued_->set) : 0;
  p.stage(set, *next);
  mark done = p.send_beside(set, beside_);
  foreseen_.emplace(foreseen_batch{&p, set, std::move(next), done});
  if (copied)
    watch_->when_passed(std::move(done), [tell = std::move(copied)](const std::exception_ptr& why) {
      if (!why) tell(); // else the step fails as well, and says why
    });
}

/// Chooses the set of inputs of a step, and fills it unless that was foreseen. A batch that nobody has
/// foreseen goes to the set that the foreseen one does not lie in, which may come later.
card_replica::queued_step card_replica::place(std::shared_ptr<const batch> inputs,
                                              std::shared_ptr<gradient> out) {
  if (foreseen_ && foreseen_->inputs == inputs)
    return {foreseen_->code, foreseen_->set, std::move(inputs), std::move(out)};
  card_program& p = program_for(*inputs);
  const std::size_t set = foreseen_ && foreseen_->code == &p ? card_program::other(foreseen_->set) : 0;
  p.stage(set, *inputs);
  return {&p, set, std::move(inputs), std::move(out)};
}

step_state card_replica::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  cuda::runtime::make_current(place_.index);
  auto step = std::make_unique<queued_step>(place(std::move(inputs), std::move(out)));
  stage_other_weights();
  step->out->source = step->inputs;
  if (step->out->covered != step->code->covered()) step->out->covered = step->code->covered();
  step->code->prepare(*step->out);
  queued_ = std::move(step);
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
  if (foreseen_ && foreseen_->inputs == queued_->inputs) {
    lane_.wait_for(foreseen_->copied);
    foreseen_.reset();
  } else {
    queued_->code->send(queued_->set);
  }
  queued_->code->use(queued_->set);
  cuda::begin_step(s, queued_->inputs->number);
  graphs_.run(s.stream, queued_->code->key_of(queued_->set), [&] {
    queued_->code->code().queue(s);
    cuda::write_record(s, loss_.on<float>(lane_.where()).data(), &record_.as<cuda::step_record>().front());
  });
  cuda::runtime::copy(s.stream, queued_->out->dense.data(), gradient_.on<std::byte>(lane_.where()).data(),
                      gradient_.bytes());
  queued_->code->fetch_rows(*queued_->out);
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
    beside_.finish();
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
