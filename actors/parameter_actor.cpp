#include <mailgrad/actors/parameter_actor.hpp>

#include <algorithm>
#include <bit>

namespace mailgrad {

namespace {

/// One message to the tracker for so many gradients.
constexpr std::uint64_t observations_per_notice = 256;

} // namespace

parameter_actor::parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
    : self_(self), options_(std::move(options)), policy_(make_policy(options_.policy)),
      participants_(options_.workers) {
  for (std::uint32_t r = 0; r < options_.workers; ++r) policy_->join({r});
}

caf::behavior parameter_actor::serving() {
  return {
      on(self_, [this](const push_gradient& x) { on_push(x); }),
      on(self_, [this](const join_shard& x) { on_join(x); }),
      on(self_, [this](const worker_left& x) { on_leave(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const report_shard&) { return report(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

void parameter_actor::on_join(const join_shard& x) {
  if (x.worker.value >= participants_.size()) return;
  participant& worker = participants_[x.worker.value];
  worker.device = x.device;
  worker.waits_since = options_.time->now();
  release();
}

void parameter_actor::on_push(const push_gradient& x) {
  if (x.worker.value >= participants_.size() || !participants_[x.worker.value].device)
    return; // never joined, or left
  participant& worker = participants_[x.worker.value];
  if (x.step <= worker.account.last_step) return; // taken before: delivered twice counts once
  worker.account.last_step = x.step;
  worker.waits_since = options_.time->now();
  worker.waiting_step = x.step;
  gradient_ledger& ledger = worker.account.ledger;
  ++ledger.produced;

  const decision d = policy_->judge({x.worker, x.step, x.version_read, options_.weights->version()});
  switch (d.what) {
  case verdict::apply:
    apply(x);
    break;
  case verdict::merge:
    merge(x);
    break;
  case verdict::discard:
    ++ledger.discarded[std::string(d.reason)];
    break;
  }
  release();
}

/// What a worker that leaves has sent stays in the batch it waits in.
void parameter_actor::on_leave(const worker_left& x) {
  if (x.worker.value >= participants_.size()) return;
  participants_[x.worker.value].waits_since.reset();
  participants_[x.worker.value].device = nullptr;
  policy_->leave(x.worker);
  apply_batch_if_complete();
  release();
}

void parameter_actor::apply(const push_gradient& x) {
  observe(x);
  contributions_.assign(1, {x.values, std::bit_cast<float>(x.scale_bits)});
  options_.weights->update(host_stream{}, contributions_);
  contributions_.clear();
  ++participants_[x.worker.value].account.ledger.applied;
}

void parameter_actor::merge(const push_gradient& x) {
  pending_.push_back(x);
  participants_[x.worker.value].merged = true;
  apply_batch_if_complete();
}

/// The mean of the batch, summed in the order of ranks: the order of arrival must not show in the weights.
void parameter_actor::apply_batch_if_complete() {
  if (!policy_->batch_complete()) return;
  barrier_opened_ = options_.time->now();
  std::ranges::sort(pending_, {}, [](const push_gradient& x) { return x.worker; });
  const float share = 1.0F / static_cast<float>(pending_.size());
  contributions_.clear();
  for (const push_gradient& x : pending_) {
    observe(x);
    contributions_.push_back({x.values, share * std::bit_cast<float>(x.scale_bits)});
    ++participants_[x.worker.value].account.ledger.merged;
  }
  options_.weights->update(host_stream{}, contributions_);
  contributions_.clear();
  pending_.clear();
  policy_->batch_applied();
}

/// The gap is taken where it counts: just before the version that this gradient helps to make.
void parameter_actor::observe(const push_gradient& x) {
  const std::uint64_t gap = options_.weights->version() - x.version_read;
  participants_[x.worker.value].account.gaps.count(gap);
  gaps_.count(gap);
  if (gaps_.total() < observations_per_notice) return;
  send(self_, options_.tracker, staleness_observed{gaps_});
  gaps_.clear();
}

void parameter_actor::release() {
  for (std::uint32_t r = 0; r < participants_.size(); ++r) {
    participant& worker = participants_[r];
    if (!worker.waits_since || !policy_->may_start({r})) continue;
    const instant waited = worker.merged ? barrier_opened_ - *worker.waits_since : instant{0};
    worker.waits_since.reset();
    worker.merged = false;
    send(self_, worker.device,
         shard_weights{options_.weights->index(), options_.weights->version(), waited.count(),
                       options_.weights->snapshot()});
  }
}

void parameter_actor::name_waits_to(const caf::actor& asker) const {
  std::string awaited;
  for (std::uint32_t r = 0; r < participants_.size(); ++r)
    if (participants_[r].device && !participants_[r].waits_since)
      awaited += (awaited.empty() ? "worker " : ", ") + std::to_string(r);
  for (std::uint32_t r = 0; r < participants_.size(); ++r)
    if (const participant& worker = participants_[r]; worker.waits_since)
      send(self_, asker,
           wait_named{"shard " + std::to_string(options_.weights->index()) + " holds worker " +
                          std::to_string(r) + " after step " + std::to_string(worker.waiting_step) + ", " +
                          std::string(policy_->name()) + " policy, until it hears from " + awaited,
                      worker.waits_since->count()});
}

shard_report parameter_actor::report() const {
  shard_report r{options_.weights->index(), options_.weights->version(), {}, options_.weights->snapshot()};
  for (const participant& worker : participants_) r.workers.push_back(worker.account);
  return r;
}

} // namespace mailgrad
