#include <mailgrad/actors/worker/stage_actor.hpp>

#include <mailgrad/tensor/hogwild_store.hpp>

namespace mailgrad {

namespace {

model_request of_size(model_request request, std::size_t samples) {
  request.batch = samples;
  return request;
}

/// The same stage sums a variable's gradient for all sizes of micro-batches.
void require_like(const stage_program& a, const stage_program& b) {
  if (a.delivered() != b.delivered())
    throw graph_error(
        "micro-batches of two sizes are placed differently, so that a gradient would be computed on two "
        "devices; place the model by scopes that do not depend on the batch");
}

} // namespace

stage_actor::sized_program::sized_program(const stage_actor_options& o, std::size_t samples, device_queue& at)
    : code(o.model, of_size(o.request, samples), *o.layout, o.devices[o.place], at, o.sums_apart) {
  for (std::size_t i = 0; i < code.parts().size(); ++i)
    pools.emplace_back([this, i] { return code.make_values(i); });
}

stage_actor::stage_actor(caf::event_based_actor* self, stage_actor_options options)
    : actor_part(self), options_(std::move(options)), weights_(*options_.layout), on_host_(options_.blocks),
      queued_(self,
              options_.gpu ? std::shared_ptr<device_queue>(options_.gpu->at())
                           : std::make_shared<host_queue>(),
              options_.watch),
      rows_([] { return std::make_shared<row_memory>(); }) {}

caf::behavior stage_actor::make_behavior() {
  return {
      on([this](const compute_step& x) { start(x); }),
      on([this](const values_computed& x) { take(x); }),
      on([this](const values_used& x) {
        if (!schedule_ || x.step != work_->step) return;
        schedule_->credit(x.segment, x.reader);
        if (!continuing_) compute_next();
      }),
      on([this](const go_on&) {
        continuing_ = false;
        compute_next();
      }),
      on([this](const weights_copied&) { queued_.serve(); }),
      on([this](const give_up&) { quit_when_idle(); }),
  };
}

/// Computes by a later message, because the present message holds the weights while it is being handled.
void stage_actor::start(const compute_step& x) {
  worker_ = sender();
  work_ = x.work;
  trace_ = x.trace;
  busy_ = instant{0};
  if (trace_) trace_->wait(trace_kind::next_step, options_.time->now());
  try {
    std::vector<std::vector<stage_schedule::part>> parts;
    by_micro_batch_.clear();
    for (const micro_batch& m : work_->micro_batches) {
      sized_program& p = program_for(m.samples->size);
      by_micro_batch_.push_back(&p);
      require_like(by_micro_batch_.front()->code, p.code);
      auto& list = parts.emplace_back();
      for (const stage_program::part& part : p.code.parts()) {
        list.push_back({part.number, part.reads, {}});
        for (const device reader : part.readers) list.back().readers.push_back(place_of(reader));
      }
    }
    if (options_.sums_apart) own_addend(by_micro_batch_.front()->code);
    schedule_.emplace(std::move(parts), options_.credits);
    sum_ = {by_micro_batch_.front()->code.covered(),
            work_->into,
            options_.place,
            std::vector<char>(options_.layout->variables().size(), 0),
            {},
            rows_.take(),
            0};
    sum_.memory->used = 0;
    if (options_.gpu) begin_on_gpu();
  } catch (const std::exception& e) {
    return fail(e);
  }
  for (std::uint32_t s = 0; !options_.gpu && s < work_->weights.size(); ++s)
    weights_.use(s, work_->weights[s].values);
  for (const values_computed& early : std::exchange(early_, {})) take(early);
  continue_later();
}

void stage_actor::take(const values_computed& x) {
  if (!work_ || x.step != work_->step) {
    early_.push_back(x); // the worker sends to one stage after the other
    return;
  }
  if (!schedule_) return; // it is to end
  const std::size_t readers = by_micro_batch_[x.micro_batch]->code.readers_of(x.segment);
  arrivals_[{x.micro_batch, x.segment}] = {x.values, readers};
  schedule_->arrive(x.micro_batch, x.segment);
  if (!continuing_) compute_next();
}

void stage_actor::compute_next() {
  if (!schedule_) return;
  if (schedule_->finished()) return options_.gpu ? end_on_gpu() : finish();
  const auto turn = schedule_->next();
  if (!turn) {
    waits_for_ = schedule_->waits_for_credit() ? trace_kind::credit : trace_kind::stage_values;
    return;
  }
  try {
    run(*turn);
  } catch (const std::exception& e) {
    return fail(e);
  }
  continue_later();
}

void stage_actor::run(const stage_schedule::turn& t) {
  const micro_batch& m = work_->micro_batches[t.micro_batch];
  sized_program& p = *by_micro_batch_[t.micro_batch];
  std::vector<const value_set*> read;
  for (const std::size_t segment : p.code.parts()[t.part].reads) {
    const auto& values = arrivals_.at({t.micro_batch, segment}).values;
    read.push_back(options_.gpu ? options_.gpu->bring(values) : values.get());
  }
  const std::shared_ptr<value_set> made = p.pools[t.part].take();
  if (options_.gpu) {
    run_on_gpu(t, read, *made);
    schedule_->ran(t);
    pass_on(t, made);
    return let_go(t);
  }
  const instant begun = options_.time->now();
  if (trace_) trace_->wait(waits_for_, begun);
  {
    std::optional<racing_read> racing;
    if (work_->racing) racing.emplace();
    p.code.run(t.part, m, weights_, read, *made, sum_);
  }
  const instant ended = options_.time->now();
  busy_ += ended - begun;
  if (trace_)
    trace_->work({trace_kind::compute_part, begun, ended, static_cast<std::uint32_t>(t.micro_batch),
                  work_->step, 0, p.code.parts()[t.part].number});
  schedule_->ran(t);
  pass_on(t, made);
  let_go(t);
}

void stage_actor::run_on_gpu(const stage_schedule::turn& t, std::span<const value_set* const> read,
                             value_set& made) {
  const micro_batch& m = work_->micro_batches[t.micro_batch];
  stage_program& code = by_micro_batch_[t.micro_batch]->code;
  code.run(t.part, m, *options_.gpu, read, made, sum_);
  options_.gpu->ran(code, t.part, m.share);
  const auto& readers = code.parts()[t.part].readers;
  options_.gpu->hand_on(made, !std::ranges::all_of(readers, [&](device d) { return is_beside(d); }));
  turns_.push_back(t);
}

/// Calls `then` when the queue has done what is queued, unless the step has failed meanwhile.
void stage_actor::when_queued_is_done(std::function<void()> then) {
  queued_.when_done([this, step = work_->step, then = std::move(then)](const std::exception_ptr& why) {
    if (!work_ || work_->step != step) return;
    try {
      if (why) std::rethrow_exception(why);
      then();
    } catch (const std::exception& e) {
      fail(e);
    }
  });
}

void stage_actor::end_on_gpu() {
  schedule_.reset();
  try {
    options_.gpu->end(by_micro_batch_.front()->code, sum_);
  } catch (const std::exception& e) {
    return fail(e);
  }
  when_queued_is_done([this] {
    note_spans(options_.gpu->take(sum_));
    finish();
  });
}

/// The GPU says when it computed each part.
void stage_actor::note_spans(const std::vector<gpu_stage::run_span>& spans) {
  if (!spans.empty()) gpu_time_.see(spans.back().end, options_.time->now());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const instant begun = gpu_time_.here(spans[i].begin), ended = gpu_time_.here(spans[i].end);
    busy_ += ended - begun;
    if (!trace_) continue;
    const stage_schedule::turn& t = turns_[i];
    trace_->wait(trace_kind::stage_values, begun);
    trace_->work({trace_kind::compute_part, begun, ended, static_cast<std::uint32_t>(t.micro_batch),
                  work_->step, 0, by_micro_batch_[t.micro_batch]->code.parts()[t.part].number});
  }
}

void stage_actor::pass_on(const stage_schedule::turn& t, const std::shared_ptr<value_set>& made) {
  const stage_program::part& part = by_micro_batch_[t.micro_batch]->code.parts()[t.part];
  const std::size_t readers_here = by_micro_batch_[t.micro_batch]->code.readers_of(part.number);
  if (readers_here > 0) {
    arrivals_[{t.micro_batch, part.number}] = {made, readers_here};
    schedule_->arrive(t.micro_batch, part.number);
  }
  const auto tell = [this, values = values_computed{work_->step, t.micro_batch, part.number, made}](
                        device reader) { send(work_->stages[place_of(reader)], values); };
  for (const device reader : part.readers)
    if (!options_.gpu || is_beside(reader))
      tell(reader);
    else
      when_queued_is_done([tell, reader] { tell(reader); });
}

/// Releases values that no further part here reads.
void stage_actor::let_go(const stage_schedule::turn& t) {
  const stage_program& code = by_micro_batch_[t.micro_batch]->code;
  for (const std::size_t segment : code.parts()[t.part].reads) {
    const auto found = arrivals_.find({t.micro_batch, segment});
    if (--found->second.readers > 0) continue;
    arrivals_.erase(found);
    const std::size_t maker = place_of(code.maker_of(segment));
    if (maker != options_.place)
      send(work_->stages[maker], values_used{work_->step, segment, options_.place});
  }
}

void stage_actor::finish() {
  step_computed answer{work_->step, options_.place, std::exchange(sum_, {}), busy_.count(),
                       std::move(trace_)};
  answer.sum.into.reset();
  schedule_.reset();
  arrivals_.clear();
  work_.reset();
  send(worker_, std::move(answer));
}

void stage_actor::fail(const std::exception& e) {
  if (options_.gpu) options_.gpu->abandon();
  schedule_.reset();
  arrivals_.clear();
  work_.reset();
  sum_ = {};
  send(worker_, stage_failed{options_.place, e.what(), std::move(trace_), failure_of_device(e)});
}

stage_actor::sized_program& stage_actor::program_for(std::size_t samples) {
  auto& known = programs_[samples];
  if (!known)
    known = naming_memory([&] { return fmt::format("the values of a stage for {} samples", samples); },
                          [&] { return std::make_unique<sized_program>(options_, samples, at()); });
  return *known;
}

} // namespace mailgrad
