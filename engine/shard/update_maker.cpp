#include <mailgrad/engine/shard/update_maker.hpp>

#include <fmt/format.h>

#include <exception>
#include <new>
#include <stdexcept>

namespace mailgrad {

shard_cure::shard_cure(std::unique_ptr<cure> what, std::shared_ptr<shard> weights, std::uint32_t workers)
    : cure_(std::move(what)), weights_(std::move(weights)), velocity_(weights_->state("velocity")),
      blocks_([queue = weights_->at(), bytes = weights_->snapshot().size() * sizeof(float)] {
        return naming_memory("the weights that a cure predicts",
                             [&] { return std::make_shared<memory>(queue->allocate(bytes)); });
      }),
      read_(workers) {}

snapshot shard_cure::weights_for(rank worker) {
  snapshot sent = weights_->snapshot();
  if (cure_ && cure_->predicts()) {
    const stream& s = weights_->at()->where();
    const std::shared_ptr<memory> predicted = blocks_.take();
    cure_->predict({sent.on(s), weights_->learning_rate(), velocity_}, predicted->on<float>(s));
    sent = snapshot(predicted, weights_->at()->record());
  }
  if (cure_ && cure_->needs_weights_read()) read_[worker.value] = sent;
  return sent;
}

contribution shard_cure::applied(const push_gradient& x, const snapshot& read) {
  const float scale = std::bit_cast<float>(x.header.scale_bits);
  if (!cure_ || !cure_->compensates()) return {x.payload.values, scale};
  const stream& s = weights_->at()->where();
  const snapshot now = weights_->snapshot();
  const std::shared_ptr<memory> result = blocks_.take();
  stale_gradient g;
  g.worker = x.header.id.worker;
  g.gap = weights_->version() - x.header.version_read;
  g.values = weights_->part_of(*x.payload.values);
  g.scale = scale;
  g.weights = now.on(s).first(g.values.size());
  if (read) g.weights_read = read.on(s).first(g.values.size());
  g.velocity = velocity_;
  cure_->compensate(g, result->on<float>(s).first(g.values.size()));
  weights_->hold(read.owner());
  return {x.payload.values, 1, snapshot(result, weights_->at()->record())};
}

namespace {

std::unique_ptr<cure> cure_of(const cure_spec& chosen, const shard& weights, std::uint32_t workers) {
  const auto wanted_for = [&] { return fmt::format("the state of cure '{}'", chosen.text()); };
  try {
    return naming_memory(wanted_for, [&] {
      return chosen.make({workers, weights.dense_size(), weights.base_learning_rate(), weights.at(),
                          weights.rule_options(), weights.whole_variables()});
    });
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(fmt::format(
        "cure '{}' keeps state for each of {} weights and {} workers, for which memory is lacking",
        chosen.text(), weights.dense_size(), workers));
  }
}

float part_of(std::uint64_t parts) { return 1.0F / static_cast<float>(std::max<std::uint64_t>(1, parts)); }

/// A policy that takes more than most_stale() says is wrong.
void require_values(const push_gradient& x) {
  if (!x.payload.values && !x.header.is_carried())
    throw std::logic_error(
        fmt::format("worker {}: the gradient of step {} was not computed, since the policy "
                    "says that it discards it, and now the policy takes it",
                    x.header.id.worker.value, x.header.id.step.value));
}

} // namespace

update_maker::update_maker(options o, worker_slots& workers, shard_port& port, shard_timeline& timeline)
    : weights_(std::move(o.weights)), time_(std::move(o.time)), helpers_(o.helpers), workers_(workers),
      port_(port), timeline_(timeline),
      cure_(cure_of(o.cure, *weights_, workers.count()), weights_, workers.count()),
      batch_(weights_, workers.count()), table_(weights_, workers.count()),
      works_([] { return std::make_shared<parallel_update>(); }) {}

// -- the gradients of an update --------------------------------------------------------------------------

double update_maker::add(const push_gradient& x) {
  require_values(x);
  const rank worker = x.header.id.worker;
  if (x.payload.values) weights_->wait_for(*x.payload.values);
  const double rate = observe(x);
  const contribution what = cure_.applied(x, cure_.read_by(worker));
  add_to_update(x.header, &what);
  of_batch_ = false;
  workers_.apply(worker);
  return rate;
}

/// A gradient that will wait, with the weights that it was computed from if the cure needs them.
waiting_gradient update_maker::received(const push_gradient& x, std::uint64_t samples) {
  require_values(x);
  const rank worker = x.header.id.worker;
  if (x.payload.values) weights_->wait_for(*x.payload.values);
  if (workers_[worker].incarnation == x.header.id.incarnation) workers_[worker].merged = true;
  return {x, cure_.read_by(worker), std::max<std::uint64_t>(samples, 1)}; // none weighs nothing
}

/// A gradient of a round is added up at once. No cure is there that would need to know its gap.
void update_maker::add_waiting(const push_gradient& x, waits_in where, std::uint64_t samples) {
  waiting_gradient g = received(x, samples);
  switch (where) {
  case waits_in::batch:
    return add_to_batch(std::move(g));
  case waits_in::queue:
    return queue_.add(std::move(g));
  case waits_in::round:
    return table_.add(x, cure_.applied(x, g.read));
  case waits_in::next_round:
    return table_.defer(x, cure_.applied(x, g.read));
  }
}

/// Of the whole update: of one gradient, of one sample if these weigh, or of one worker.
float update_maker::share_of_all() const {
  if (cure_.adds_up()) return 1;
  if (weighing_ == weighing::workers) return part_of(batch_.workers());
  return part_of(weighing_ == weighing::samples ? batch_.samples() : batch_.size());
}

/// Of that, if workers weigh: of one gradient of a worker.
gradient_batch::sharing update_maker::shares() const {
  if (cure_.adds_up() || weighing_ != weighing::workers) return [](rank) { return 1.0F; };
  return [this](rank worker) { return part_of(batch_.of(worker)); };
}

void update_maker::add_batch() {
  share_ = share_of_all();
  batch_.hand_over(
      shares(), [this](const waiting_gradient& g) { return counted(g); },
      [this](const gradient_header& x, const contribution* what) {
        add_to_update(x, what);
        workers_.merge(x.id.worker);
      });
  of_batch_ = true;
}

void update_maker::add_round() {
  table_.count_new([this](const push_gradient& x) {
    observe(x);
    add_to_update(x.header, nullptr);
    workers_.merge(x.header.id.worker);
  });
  for (const contribution& mean : table_.means()) contributions_.push_back(mean);
  of_batch_ = true;
}

/// No version is made while a batch waits, so the gap of a gradient does not depend on when it is counted.
contribution update_maker::counted(const waiting_gradient& g) {
  const auto factor = static_cast<float>(observe(g.what));
  if (g.what.header.is_carried()) return {};
  contribution what = cure_.applied(g.what, g.read);
  what.scale *= factor;
  if (weighing_ == weighing::samples && !cure_.adds_up()) what.scale *= static_cast<float>(g.samples);
  return what;
}

/// Notes the gap of a gradient that counts. Returns the cure's factor.
double update_maker::observe(const push_gradient& x) {
  const std::uint64_t gap = gap_of(x.header);
  worker_slot& worker = workers_[x.header.id.worker];
  worker.account.gaps.count(gap);
  port_.count_gap(gap, worker.arrived);
  if (x.payload.read) sample(x);
  if (cure_.draws_workers()) meet(x);
  return cure_.factor(gap);
}

/// Keeps the present weights, at which the device will compute the sampled gradient once more.
void update_maker::sample(const push_gradient& x) {
  auto measured = weights_->measure_distance(x.payload.read);
  distances_.push_back({x.header.id, gap_of(x.header), std::move(measured), weights_->at()->record()});
  note_distances();
  meet(x);
}

void update_maker::note_distances() {
  for (; !distances_.empty() && distances_.front().until.passed(); distances_.pop_front()) {
    const sampled_distance& d = distances_.front();
    worker_account& account = workers_[d.of.worker].account;
    const double gap = weights_->distance_of(*d.measured);
    account.weight_gap.add(gap);
    account.sampled_gaps.add({d.of.incarnation, d.of.step, d.lag, gap});
  }
}

// -- the update ------------------------------------------------------------------------------------------

bool update_maker::update(waits_in where, std::size_t first) {
  batch_begun_ = time_->now();
  if (where == waits_in::queue)
    for (waiting_gradient& g : queue_.take(first)) add_to_batch(std::move(g));
  if (where == waits_in::round)
    add_round();
  else
    add_batch();
  return make(1);
}

bool update_maker::make(double rate) {
  if (divides()) {
    begun_ = time_->now();
    work_ = works_.take();
    weights_->begin_update(*work_, contributions_, rate, helpers_ + 1, weights_, share_);
    return false;
  }
  begun_ = time_->now();
  try {
    weights_->update(contributions_, rate, share_);
  } catch (const out_of_memory& e) {
    throw out_of_memory(e, in_words());
  } catch (const std::exception& e) {
    fail(e.what());
  }
  note_version();
  return true;
}

parallel_update::progress update_maker::compute_part() {
  try {
    return work_->compute_part();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

bool update_maker::end() {
  weights_->end_update(*work_);
  work_.reset();
  note_version();
  return of_batch_;
}

/// "update 4 by rule 'adam'"
std::string update_maker::in_words() const {
  return fmt::format("update {} by rule '{}'", version().value + 1, weights_->rule());
}

void update_maker::fail(const std::string& why) const {
  throw std::runtime_error(fmt::format("{}: {}", in_words(), why));
}

void update_maker::note_version() {
  const instant each = (time_->now() - begun_) / std::max<std::size_t>(1, gradients_.size());
  for (const gradient_header& x : gradients_) {
    workers_[x.id.worker].account.times.apply.add(each);
    timeline_.applied(x, version(), begun_, each);
    begun_ += each;
  }
  gradients_.clear();
  contributions_.clear();
  share_ = 1;
}

} // namespace mailgrad
