#include <mailgrad/engine/shard/shard_cut.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

void keep_state(archive& a, const shard_state& of, bool same_workers) {
  a.version(3);
  a.field("shard", of.weights);
  a.group("cure", [&] { of.updates.keep_cure(a); });
  if (!same_workers) return;
  a.field("policy", of.machine.rule());
  a.group("workers", [&] { of.workers.keep(a, of.weights, of.order.replays()); });
  of.updates.keep_waiting(a, of.machine.rule(), of.run);
  a.group("order", [&] { of.order.keep(a); });
}

std::string group_of(std::size_t gradient) { return fmt::format("gradient {}", gradient); }

} // namespace

shard_cut::shard_cut(const shard_state& of) : of_(of), markers_(of.workers.count()) {}

bool shard_cut::begin(std::uint64_t number) {
  if (number < last_ || (number == last_ && !kept_)) return false; // finished before
  number_ = number;
  return true;
}

bool shard_cut::mark(std::uint64_t number, rank worker, step_number step) {
  if (worker.value >= markers_.size()) return false;
  const bool begun = begin(number);
  if (number == number_) markers_[worker.value] = step;
  return begun;
}

bool shard_cut::belongs(const gradient_id& id) const {
  const std::optional<step_number>& marker = markers_[id.worker.value];
  return !marker || id.step <= *marker;
}

void shard_cut::before(const gradient_id& id) {
  if (number_ == 0 || kept_ || id.worker.value >= markers_.size() || belongs(id)) return;
  if (!of_.order.is_led()) keep_now();
}

void shard_cut::before_leaving(rank worker) {
  if (number_ == 0 || kept_ || worker.value >= markers_.size() || !markers_[worker.value]) return;
  if (!of_.order.is_led()) keep_now();
}

void shard_cut::add(const push_gradient& x) {
  if (!kept_ || !belongs(x.header.id)) return;
  beside_.push_back({x, of_.updates.read_by(x.header.id.worker)});
  beside_.back().what.payload.credit.reset();
}

void shard_cut::follow(std::uint64_t number) {
  begin(number);
  if (number == number_ && !kept_) keep_now();
}

/// The run goes on without this checkpoint if memory is lacking for the copies on the host.
template <class Work>
void shard_cut::or_note(const Work& work) {
  try {
    work();
  } catch (const out_of_memory& e) {
    failure_ = e.what();
  }
}

/// Gradients that wait for their turn are kept beside the state, which is that of before their arrival.
void shard_cut::keep_now() {
  const auto wait = [this](const push_gradient& x, bool arrived) {
    worker_slot& worker = of_.workers[x.header.id.worker];
    worker.account.last_step.value = x.header.id.step.value - (arrived ? 0 : 1);
    worker.owed = arrived;
  };
  of_.order.for_each_waiting([&](const push_gradient& x) { wait(x, false); });
  kept_ = std::make_shared<saved_fields>();
  failure_.clear();
  or_note([this] {
    of_.lease.fetch();
    of_.updates.note_distances();
    keep_state(*kept_, of_, true);
  });
  of_.order.for_each_waiting([&](const push_gradient& x) { wait(x, true); });
  last_ = number_;
  of_.order.for_each_waiting([this](const push_gradient& x) { add(x); });
  of_.order.announce_kept(number_);
}

bool shard_cut::all_marked() const {
  const std::span<const worker_slot> workers = of_.workers.all();
  for (std::size_t r = 0; r < markers_.size(); ++r)
    if (!markers_[r] && !workers[r].left) return false;
  return true;
}

std::optional<kept_shard> shard_cut::finished() {
  if (number_ == 0 || !all_marked()) return std::nullopt;
  if (!kept_ && of_.order.is_led()) return std::nullopt; // its turn is still to come
  if (!kept_) keep_now();
  std::erase_if(beside_, [this](const waiting_gradient& g) { return !belongs(g.what.header.id); });
  std::size_t count = beside_.size();
  if (failure_.empty())
    or_note([&] {
      kept_->field("gradients beside", count);
      for (std::size_t i = 0; i < count; ++i)
        kept_->group(group_of(i), [&] { keep_gradient(*kept_, beside_[i], of_.weights); });
    });
  if (!failure_.empty()) kept_.reset();
  beside_.clear();
  std::ranges::fill(markers_, std::nullopt);
  return kept_shard{std::exchange(number_, 0), std::exchange(kept_, nullptr)};
}

std::optional<std::uint64_t> shard_cut::give_up() {
  if (number_ == 0) return std::nullopt;
  last_ = number_;
  kept_.reset();
  beside_.clear();
  std::ranges::fill(markers_, std::nullopt);
  return std::exchange(number_, 0);
}

std::vector<push_gradient> restore_shard(archive& a, const shard_state& to, bool same_workers) {
  keep_state(a, to, same_workers);
  std::vector<push_gradient> beside;
  if (!same_workers) return beside;
  std::size_t count = 0;
  a.field("gradients beside", count);
  for (std::size_t i = 0; i < count; ++i) {
    waiting_gradient g;
    a.group(group_of(i), [&] { keep_gradient(a, g, to.weights); });
    const rank worker = g.what.header.id.worker;
    if (worker.value >= to.workers.count())
      throw archive_error(fmt::format("{}: there is no worker {}", group_of(i), worker.value));
    g.what.header.id.run = to.run;
    if (g.read) to.updates.has(worker, g.read);
    worker_slot& slot = to.workers[worker];
    slot.owed = true;
    slot.account.last_step = slot.waiting_step = g.what.header.id.step;
    beside.push_back(std::move(g.what));
  }
  return beside;
}

} // namespace mailgrad
