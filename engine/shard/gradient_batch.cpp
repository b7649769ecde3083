#include <mailgrad/engine/shard/gradient_batch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad {

namespace {

/// "the sum of step 5 that worker 0 carries"
std::string in_words(const gradient_header& x) {
  if (!x.sum) return fmt::format("no sum at step {}", x.id.step.value);
  return fmt::format("the sum of {} gradients of step {} that worker {} carries", x.sum->gradients,
                     x.id.step.value, x.sum->carrier.value);
}

bool is_of_one_sum(const gradient_header& a, const gradient_header& b) {
  return a.sum && b.sum && a.id.step == b.id.step && a.sum->carrier == b.sum->carrier &&
         a.sum->gradients == b.sum->gradients;
}

/// Whether all that a shard reads of the gradient are dense values of the whole model, of one worker.
bool is_dense_alone(const push_gradient& x) {
  const gradient* const g = x.payload.values.get();
  return g && !x.header.sum && !g->covered && g->addends.empty() && g->sparse.empty() &&
         g->sparse_on_gpu.empty();
}

} // namespace

void require_one_sum(std::span<const gradient_header> of_update) {
  if (std::ranges::none_of(of_update, [](const gradient_header& x) { return x.sum.has_value(); })) return;
  const gradient_header& first = of_update.front();
  for (const gradient_header& x : of_update)
    if (!is_of_one_sum(first, x))
      throw std::runtime_error(
          fmt::format("worker {}: expected its gradient in {}, as that of worker {}, found {}",
                      x.id.worker.value, in_words(first), first.id.worker.value, in_words(x)));
  if (std::ranges::none_of(of_update,
                           [&](const gradient_header& x) { return x.id.worker == first.sum->carrier; }))
    throw std::runtime_error(fmt::format("worker {}: expected {}, found no gradient of that worker",
                                         first.sum->carrier.value, in_words(first)));
  if (of_update.size() != first.sum->gradients)
    throw std::runtime_error(fmt::format("worker {}: expected {}, found {} gradients for this update",
                                         first.sum->carrier.value, in_words(first), of_update.size()));
}

gradient_batch::gradient_batch(std::shared_ptr<shard> weights, std::uint32_t workers)
    : weights_(std::move(weights)), workers_(workers) {}

std::uint64_t gradient_batch::of(rank worker) const {
  const of_worker& w = workers_[worker.value];
  return w.summed.size() + w.further.size() + (w.alone ? 1 : 0) + (w.is_in_first ? 1 : 0);
}

void gradient_batch::add(waiting_gradient g, const counting& count) {
  const std::uint32_t from = g.what.header.id.worker.value;
  of_worker& w = workers_[from];
  if (of({from}) == 0) ranks_.push_back(from);
  ++size_;
  samples_ += g.samples;
  has_sums_ = has_sums_ || g.what.header.sum;
  if (!w.alone && w.summed.empty()) {
    if (!is_dense_alone(g.what)) spend(g); // it is not added up with others
    first_.searched = std::min<std::size_t>(first_.searched, from);
    w.alone = std::move(g);
    return;
  }
  spend(g);
  if (weights_->has_tables_there()) return w.further.push_back(std::move(g));
  if (w.alone) {
    if (!w.sum) w.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
    w.sum->clear();
    if (std::exchange(w.is_placed, false)) {
      std::erase(first_.places, rank{from});
      first_.credits -= w.alone->what.payload.credit ? 1 : 0;
    }
    spend(*w.alone);
    add_up(w, *std::exchange(w.alone, std::nullopt), count);
  }
  add_up(w, g, count);
}

/// The size of the batch is not known yet, so each gradient counts in full and the sum is scaled later. A
/// cure that keeps state therefore sees these gradients before those of workers with one gradient.
void gradient_batch::add_up(of_worker& w, const waiting_gradient& g, const counting& count) {
  weights_->add_to(*w.sum, count(g));
  w.summed.push_back(g.what.header);
}

void gradient_batch::give_places(rank next, const counting& count) {
  for (; first_.searched < std::min<std::size_t>(next.value, workers_.size()); ++first_.searched) {
    of_worker& w = workers_[first_.searched];
    if (!w.alone || std::exchange(w.is_placed, true)) continue;
    first_.places.push_back({static_cast<std::uint32_t>(first_.searched)});
    first_.credits += w.alone->what.payload.credit ? 1 : 0;
  }
  add_up_placed(count);
}

/// Whether the gradient of a place can be added up, and is not alone in the sum.
bool gradient_batch::adds_up_next(std::size_t place) const {
  const auto is_dense = [this](std::size_t p) {
    return p < first_.places.size() && is_dense_alone(workers_[first_.places[p].value].alone->what);
  };
  return is_dense(place) && (!first_.summed.empty() || is_dense(place + 1));
}

/// A gradient that is added up with its batch alone ends the sum that is made before.
void gradient_batch::add_up_placed(const counting& count) {
  std::size_t done = 0;
  for (; first_.credits > 0 && adds_up_next(done); ++done) {
    of_worker& w = workers_[first_.places[done].value];
    if (!first_.sum) first_.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
    if (first_.summed.empty()) first_.sum->clear();
    waiting_gradient g = *std::exchange(w.alone, std::nullopt);
    w.is_placed = false;
    w.is_in_first = true;
    first_.credits -= g.what.payload.credit ? 1 : 0;
    spend(g);
    weights_->add_to(*first_.sum, count(g));
    first_.summed.push_back(g.what.header);
  }
  first_.places.erase(first_.places.begin(), first_.places.begin() + static_cast<std::ptrdiff_t>(done));
  if (first_.credits == 0) return;
  for (const rank r : first_.places) spend(*workers_[r.value].alone);
  first_.credits = 0;
}

void gradient_batch::spend(waiting_gradient& g) {
  if (auto credit = std::exchange(g.what.payload.credit, nullptr)) spent_.push_back(std::move(credit));
}

void gradient_batch::hand_over(const sharing& share_of, const counting& count, const taking& take) {
  if (std::exchange(has_sums_, false)) require_one_sum(headers());
  const auto take_sum = [&](gradient_sum& of, std::vector<gradient_header>& summed, float share) {
    contribution sum = of.result();
    sum.scale = share;
    for (std::size_t i = 0; i < summed.size(); ++i) take(summed[i], i == 0 ? &sum : nullptr);
    summed.clear();
  };
  const auto take_alone = [&](waiting_gradient g, float share) {
    spend(g);
    contribution what = count(g);
    what.scale *= share;
    take(g.what.header, g.what.header.is_carried() ? nullptr : &what);
  };
  if (!first_.summed.empty()) take_sum(*first_.sum, first_.summed, 1);
  for (const rank r : first_.places)
    take_alone(*std::exchange(workers_[r.value].alone, std::nullopt), share_of(r));
  std::ranges::sort(ranks_); // a look at the others takes long, if there are thousands
  for (const std::uint32_t r : ranks_) {
    of_worker& w = workers_[r];
    const float share = share_of({r});
    w.is_placed = w.is_in_first = false;
    if (w.alone) take_alone(*std::exchange(w.alone, std::nullopt), share);
    for (waiting_gradient& g : std::exchange(w.further, {})) take_alone(std::move(g), share);
    if (!w.summed.empty()) take_sum(*w.sum, w.summed, share);
  }
  first_.places.clear();
  first_.searched = first_.credits = 0;
  ranks_.clear();
  size_ = 0;
  samples_ = 0;
}

std::vector<gradient_header> gradient_batch::headers() const {
  std::vector<gradient_header> all = first_.summed;
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
  keep_beginning(a, run);
  keep_further(a, run);
  ranks_.clear();
  for (std::uint32_t r = 0; r < workers_.size(); ++r)
    if (of({r}) > 0) ranks_.push_back(r);
}

void gradient_batch::keep_beginning(archive& a, run_id run) {
  std::size_t placed = first_.places.size(), summed = first_.summed.size();
  a.field("places", placed);
  if (placed > workers_.size())
    throw archive_error("batch: more gradients have places than there are workers");
  if (a.reads()) first_.places.resize(placed);
  for (std::size_t i = 0; i < placed; ++i) {
    std::uint32_t& of = first_.places[i].value;
    a.field(fmt::format("place {}", i), of);
    if (of >= workers_.size() || !workers_[of].alone)
      throw archive_error(
          fmt::format("batch: expected a gradient of worker {} in its place, found none", of));
    workers_[of].is_placed = true;
  }
  a.field("added up", summed);
  if (summed > workers_.size())
    throw archive_error("batch: more gradients are added up than there are workers");
  if (a.reads()) first_.summed.resize(summed);
  for (std::size_t i = 0; i < summed; ++i) {
    gradient_header& x = first_.summed[i];
    a.group(fmt::format("added up {}", i), [&] { keep_header(a, x); });
    x.id.run = run;
    if (x.id.worker.value >= workers_.size())
      throw archive_error(fmt::format("batch: there is no worker {}", x.id.worker.value));
    workers_[x.id.worker.value].is_in_first = true;
  }
  if (summed == 0) return;
  if (a.reads()) first_.sum = std::make_unique<gradient_sum>(weights_->at(), weights_->dense_size());
  a.field("first sum", *first_.sum);
}

/// Keeps the gradients that the groups before have not. Only a shard with tables on a GPU has any.
void gradient_batch::keep_further(archive& a, run_id run) {
  std::size_t kept = first_.summed.size();
  for (const of_worker& w : workers_) kept += w.summed.size() + (w.alone ? 1 : 0);
  if (kept == size_) return;
  if (!weights_->has_tables_there())
    throw archive_error("batch: several gradients of a worker wait with rows of tables; go on on a GPU");
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
