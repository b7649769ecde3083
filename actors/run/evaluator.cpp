#include <mailgrad/actors/run/evaluator.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/model/evaluation.hpp>

#include <algorithm>
#include <exception>
#include <span>

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of;

caf::behavior evaluator::make_behavior() {
  return {
      on(self_, [this](const test_weights& x) { on_test(x); }),
      on(self_, [this](const shard_read& x) { on_read(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void evaluator::on_test(const test_weights& x) {
  asker_ = sender_of(self_);
  steps_ = x.steps;
  awaited_ = options_.shards.size();
  lacks_weights_ = false;
  for (const caf::actor& shard : options_.shards) send(self_, shard, read_shard{});
  if (options_.shards.empty()) options_.store->load(0, parameters_);
  test_if_all_read();
}

void evaluator::on_read(const shard_read& x) {
  if (awaited_ == 0 || x.shard.value >= options_.layout->shard_count()) return;
  const shard_range range = options_.layout->shard(x.shard.value);
  const std::span mine = std::span(parameters_).subspan(range.begin, range.size());
  if (!x.in_block && !x.values)
    lacks_weights_ = true; // there was no memory for a copy of them
  else if (x.in_block)
    options_.store->load(range.begin, mine);
  else if (x.values.on_host().size() != mine.size())
    return; // of a process that is not as it should be
  else
    std::ranges::copy(x.values.on_host(), mine.begin());
  --awaited_;
  test_if_all_read();
}

void evaluator::test_if_all_read() {
  if (awaited_ == 0) send(self_, asker_, tested());
}

/// A test that fails here fails at the end as well, where the report has its reason.
weights_tested evaluator::tested() const {
  const instant begun = options_.time->now();
  weights_tested answer;
  answer.what.steps = steps_;
  answer.what.held_out = options_.held_out;
  if (lacks_weights_) {
    answer.whole = false;
    return answer;
  }
  try {
    const evaluation e = evaluate(options_.model, options_.request, *options_.layout, parameters_,
                                  *options_.samples, options_.stop);
    answer.what.loss = e.loss;
    answer.what.accuracy = e.accuracy;
    answer.what.rmse = e.rmse;
    answer.whole = e.whole;
  } catch (const std::exception&) {
    answer.whole = false;
  }
  answer.what.seconds = in_seconds(options_.time->now() - begun);
  if (answer.whole && options_.on_tested) options_.on_tested(answer.what, parameters_);
  return answer;
}

} // namespace mailgrad
