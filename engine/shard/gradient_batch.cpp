#include <mailgrad/engine/shard/gradient_batch.hpp>

#include <mailgrad/engine/shard/summed_gradients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

gradient_batch::gradient_batch(std::shared_ptr<shard> weights, std::uint32_t workers)
    : weights_(std::move(weights)), workers_(workers) {}

std::uint64_t gradient_batch::of(rank worker) const {
  const of_worker& w = workers_[worker.value];
  return w.summed.size() + w.further.size() + (w.alone ? 1 : 0);
}

void gradient_batch::add(waiting_gradient g, const counting& count) {
  of_worker& w = workers_[g.what.header.id.worker.value];
  ++size_;
  samples_ += g.samples;
  has_sums_ = has_sums_ || g.what.header.sum;
  if (!w.alone && w.summed.empty()) {
    ranks_.push_back(g.what.header.id.worker.value);
    w.alone = std::move(g);
    return;
  }
  if (weights_->has_tables_there()) return w.further.push_back(std::move(g));
  if (w.alone) {
    if (!w.sum) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
    w.sum->clear();
    add_up(w, *std::exchange(w.alone, std::nullopt), count);
  }
  add_up(w, g, count);
}

/// The size of the batch is not known yet, so each gradient counts in full and the sum is scaled later. A
/// cure that keeps state therefore sees these gradients before those of workers with one gradient.
void gradient_batch::add_up(of_worker& w, const waiting_gradient& g, const counting& count) {
  weights_->add_to(*w.sum, count(g, 1));
  w.summed.push_back(g.what.header);
}

void gradient_batch::hand_over(const sharing& share_of, const counting& count, const taking& take) {
  if (std::exchange(has_sums_, false)) require_one_sum(headers());
  std::ranges::sort(ranks_); // a look at the others takes long, if there are thousands
  for (const std::uint32_t r : ranks_) {
    of_worker& w = workers_[r];
    const float share = share_of({r});
    const auto take_alone = [&](const waiting_gradient& g) {
      const contribution what = count(g, share);
      take(g.what.header, g.what.header.is_carried() ? nullptr : &what);
    };
    if (w.alone) take_alone(*std::exchange(w.alone, std::nullopt));
    for (const waiting_gradient& g : std::exchange(w.further, {})) take_alone(g);
    if (w.summed.empty()) continue;
    contribution sum = w.sum->result();
    sum.scale = share;
    for (std::size_t i = 0; i < w.summed.size(); ++i) take(w.summed[i], i == 0 ? &sum : nullptr);
    w.summed.clear();
  }
  ranks_.clear();
  size_ = 0;
  samples_ = 0;
}

std::vector<gradient_header> gradient_batch::headers() const {
  std::vector<gradient_header> all;
  for (const of_worker& w : workers_) {
    if (w.alone) all.push_back(w.alone->what.header);
    for (const waiting_gradient& g : w.further) all.push_back(g.what.header);
    all.insert(all.end(), w.summed.begin(), w.summed.end());
  }
  return all;
}

void gradient_batch::keep(archive& a, run_id run) {
  a.field("size", size_);
  a.field("samples", samples_);
  for (std::size_t r = 0; r < workers_.size(); ++r)
    a.group(fmt::format("worker {}", r), [&] { keep(a, workers_[r], run); });
  keep_further(a, run);
  ranks_.clear();
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (of({r}) > 0) ranks_.push_back(r);
}

/// Keeps the gradients that the groups before have not. Only a shard with tables on a card has any.
void gradient_batch::keep_further(archive& a, run_id run) {
  std::size_t kept = 0;
  for (const of_worker& w : workers_) kept += w.summed.size() + (w.alone ? 1 : 0);
  if (kept == size_) return;
  if (!weights_->has_tables_there())
    throw archive_error("batch: several gradients of a worker wait with rows of tables; go on on a card");
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    std::vector<waiting_gradient>& further = workers_[r].further;
    std::size_t count = further.size();
    a.field(fmt::format("further of {}", r), count);
    if (a.reads()) further.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      a.group(fmt::format("further {} of {}", i, r), [&] { keep_gradient(a, further[i], *weights_); });
      further[i].what.header.id.run = run;
    }
  }
}

void gradient_batch::keep(archive& a, of_worker& w, run_id run) {
  bool alone = w.alone.has_value();
  a.field("has one", alone);
  if (alone) {
    if (a.reads()) w.alone.emplace();
    a.group("one", [&] { keep_gradient(a, *w.alone, *weights_); });
    w.alone->what.header.id.run = run;
  }
  std::size_t summed = w.summed.size();
  a.field("summed", summed);
  for (std::size_t i = 0; i < summed; ++i) {
    gradient_header x = a.reads() ? gradient_header{} : w.summed[i];
    a.group(fmt::format("summed {}", i), [&] { keep_header(a, x); });
    x.id.run = run;
    if (a.reads()) w.summed.push_back(x);
  }
  if (summed == 0) return;
  if (weights_->has_tables_there())
    throw archive_error(
        "batch: several gradients of a worker are added up with rows of tables; go on on the host");
  if (a.reads()) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("sum", *w.sum);
}

} // namespace mailgrad
