#include <mailgrad/engine/shard/gradient_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

gradient_table::gradient_table(std::shared_ptr<shard> weights, std::uint32_t workers)
    : weights_(std::move(weights)), workers_(workers) {}

std::uint64_t gradient_table::of(rank worker) const {
  std::uint64_t waiting = 0;
  for (const round* r : {&now_, &next_})
    if (worker.value < r->workers.size()) waiting += r->workers[worker.value].fresh.size();
  return waiting;
}

bool gradient_table::has_waiting() const {
  const auto waits = [](const of_worker& w) { return !w.fresh.empty(); };
  return std::ranges::any_of(now_.workers, waits) || std::ranges::any_of(next_.workers, waits);
}

void gradient_table::add(round& to, const push_gradient& x, const contribution& what) {
  if (to.workers.empty()) to.workers.resize(workers_);
  of_worker& w = to.workers[x.header.id.worker.value];
  if (!w.sum) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  if (w.gradients == 0) w.sum->clear();
  weights_->add_to(*w.sum, what);
  ++w.gradients;
  w.fresh.push_back(x);
  w.fresh.back().payload.values.reset();
  to.waits = true;
}

void gradient_table::count_new(const std::function<void(const push_gradient&)>& count) {
  for (of_worker& w : now_.workers)
    for (const push_gradient& x : std::exchange(w.fresh, {})) count(x);
  now_.waits = false;
}

std::vector<contribution> gradient_table::means() {
  std::vector<contribution> all;
  const auto n = std::ranges::count_if(now_.workers, [](const of_worker& w) { return w.gradients > 0; });
  for (of_worker& w : now_.workers) {
    if (w.gradients == 0) continue;
    contribution& mean = all.emplace_back(w.sum->result());
    mean.scale = 1.0F / (static_cast<float>(n) * static_cast<float>(w.gradients));
  }
  return all;
}

void gradient_table::begin_round(std::uint64_t rounds_over) {
  while (rounds_ < rounds_over) turn_over();
}

void gradient_table::skip_to_waiting() {
  if (!now_.waits && next_.waits) turn_over();
}

void gradient_table::turn_over() {
  ++rounds_;
  std::swap(now_, next_);
  next_.waits = false;
  for (of_worker& w : next_.workers) {
    w.gradients = 0;
    w.fresh.clear();
  }
}

void gradient_table::clear() {
  now_ = {};
  next_ = {};
  rounds_ = 0;
}

void gradient_table::keep(archive& a, run_id run) {
  a.field("rounds", rounds_);
  a.group("now", [&] { keep(a, now_, run); });
  a.group("next", [&] { keep(a, next_, run); });
}

void gradient_table::keep(archive& a, round& of, run_id run) {
  a.field("waits", of.waits);
  bool used = !of.workers.empty();
  a.field("used", used);
  if (used && a.reads()) of.workers.resize(workers_);
  for (std::size_t r = 0; r < of.workers.size(); ++r)
    a.group(fmt::format("worker {}", r), [&] { keep(a, of.workers[r], run); });
}

void gradient_table::keep(archive& a, of_worker& w, run_id run) {
  a.field("gradients", w.gradients);
  std::size_t fresh = w.fresh.size();
  a.field("fresh", fresh);
  for (std::size_t i = 0; i < fresh; ++i) {
    push_gradient x = a.reads() ? push_gradient{} : w.fresh[i];
    a.group(fmt::format("fresh {}", i), [&] { keep_header(a, x.header); });
    x.header.id.run = run;
    if (a.reads()) w.fresh.push_back(x);
  }
  if (w.gradients == 0) return;
  if (a.reads()) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("sum", *w.sum);
}

} // namespace mailgrad
