#include <mailgrad/actors/run/evaluator.hpp>

namespace mailgrad {

evaluator::evaluator(caf::event_based_actor* self, evaluator_options options)
    : actor_part(self), options_(std::move(options)),
      tester_(options_.model, options_.request, options_.layout, options_.gpu),
      parameters_(options_.layout->size()), on_gpu_(options_.layout->shard_count()) {}

caf::behavior evaluator::make_behavior() {
  return {
      on([this](const test_weights& x) {
        asker_ = sender();
        steps_ = x.steps;
        seconds_ = 0;
        ask_for_weights();
      }),
      on([this](const shard_read& x) { on_read(x); }),
      // The state of an actor may outlive it for a moment, and somebody may need the memory by then.
      on([this](const give_up&) {
        std::ranges::fill(on_gpu_, snapshot());
        tester_.drop_model();
        self_->quit();
      }),
  };
}

void evaluator::ask_for_weights() {
  read_shard wanted;
  if (const auto& gpu = tester_.gpu()) wanted.gpu = gpu->index;
  awaited_ = options_.shards.size();
  lacks_weights_.clear();
  for (const caf::actor& shard : options_.shards) send(shard, wanted);
  if (options_.shards.empty()) options_.store->load(0, parameters_);
  test_if_all_read();
}

void evaluator::on_read(const shard_read& x) {
  if (awaited_ == 0 || x.shard.value >= options_.layout->shard_count()) return;
  const shard_range range = options_.layout->shard(x.shard.value);
  const std::span mine = std::span(parameters_).subspan(range.begin, range.size());
  if (x.in_block)
    options_.store->load(range.begin, mine);
  else if (!x.values)
    lacks_weights_ = fmt::format("shard {} gave no weights", x.shard.value);
  else if (x.values.size() != mine.size())
    return; // of a process that is not as it should be
  else if (x.values.owner()->is_on_host())
    std::ranges::copy(x.values.on_host(), mine.begin());
  else
    on_gpu_[x.shard.value] = x.values;
  --awaited_;
  test_if_all_read();
}

/// A GPU that fails while a test reads weights there takes them along, so the shards are asked once more.
void evaluator::test_if_all_read() {
  if (awaited_ > 0) return;
  lie_there_ = any_on_gpu();
  weights_tested answer;
  bool done = try_to_test(answer);
  std::ranges::fill(on_gpu_, snapshot()); // those that were not copied
  if (!done && lie_there_) return ask_for_weights();
  if (!done) try_to_test(answer);
  send(asker_, answer);
}

/// A shard that updates while somebody reads its weights needs more memory, so they are let go of once
/// copied.
void evaluator::give_weights_to(tested_model& model) {
  if (!lie_there_) return model.use("evaluate", parameters_);
  for (std::uint32_t s = 0; s < on_gpu_.size(); ++s) {
    const shard_range range = options_.layout->shard(s);
    if (on_gpu_[s])
      model.use(s, std::exchange(on_gpu_[s], {}));
    else
      model.use(s, std::span(parameters_).subspan(range.begin, range.size()));
  }
}

/// Returns false if the GPU has failed. A test that fails otherwise fails at the end as well, where the
/// report has its reason.
bool evaluator::try_to_test(weights_tested& answer) {
  const instant begun = options_.time->now();
  answer.what.steps = steps_;
  answer.what.held_out = options_.held_out;
  answer.whole = lacks_weights_.empty();
  answer.why_left_out = lacks_weights_;
  if (!answer.whole) return true;
  evaluation e;
  bool done = true;
  try {
    done = tester_.try_with_model([&](tested_model& model) {
      give_weights_to(model);
      e = evaluate(model, *options_.samples, options_.stop);
      if (e.whole && options_.on_tested && lie_there_) model.copy_weights(parameters_);
    });
    answer.what.loss = e.loss;
    answer.what.accuracy = e.accuracy;
    answer.what.rmse = e.rmse;
    answer.whole = e.whole;
  } catch (const std::exception& failure) {
    answer.whole = false;
    answer.why_left_out = failure.what();
  }
  seconds_ += in_seconds(options_.time->now() - begun);
  if (!done) return false;
  answer.what.why_on_host = tester_.why_on_host();
  answer.what.seconds = seconds_;
  if (answer.whole && options_.on_tested) options_.on_tested(answer.what, parameters_);
  return true;
}

void ended_weights::take(const run_outcome& outcome, const hogwild_store* block) {
  if (!last_.empty()) return;
  if (!plan_.has_shards()) {
    last_.resize(plan_.layout->size());
    block->load(0, last_);
  } else {
    last_ = joined_weights(outcome, *plan_.layout).value_or(std::vector<float>());
  }
}

void ended_weights::choose(const std::function<bool()>& stop_test) {
  if (std::exchange(chosen_, true) || plan_.options.keep == kept_weights::last) return;
  best_ = tested_.best();
  if (!best_ || last_.empty() || format_not_finite(*plan_.layout, last_)) return;
  try {
    const evaluation e = test_last(stop_test);
    if (e.whole && e.loss < best_->test.loss) best_.reset();
  } catch (const std::exception& failure) {
    why_untested_ = failure.what();
  }
}

evaluation ended_weights::test_last(const std::function<bool()>& stop_test) const {
  evaluation e;
  run_tester tester(plan_.model, plan_.request, plan_.layout, gpu_for_tests(plan_.options));
  tester.with_model([&](tested_model& model) {
    model.use("the test", last_);
    e = evaluate(model, plan_.judged_by(), stop_test);
  });
  return e;
}

} // namespace mailgrad
