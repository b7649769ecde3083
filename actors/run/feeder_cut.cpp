#include <mailgrad/actors/run/feeder_cut.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

/// A worker computes one batch, and has asked for the next.
constexpr std::size_t most_under_way = 2;

} // namespace

feeder_cut::feeder_cut(std::uint32_t workers, std::vector<std::uint64_t> trained) : workers_(workers) {
  trained.resize(workers);
  for (std::size_t r = 0; r < workers; ++r) workers_[r].dealt = trained[r];
}

void feeder_cut::deal(rank worker, std::uint64_t number) {
  of_worker& w = workers_[worker.value];
  ++w.dealt;
  if (w.last.size() == most_under_way) w.last.erase(w.last.begin());
  w.last.push_back(number);
  if (w.mark) w.again.push_back(number);
}

void feeder_cut::begin(std::uint64_t number, const caf::actor& collector) {
  if (number <= last_) return; // finished before
  number_ = number;
  collector_ = collector;
}

void feeder_cut::mark(const worker_marked& x) {
  if (x.worker.value >= workers_.size()) return;
  begin(x.number, x.collector);
  if (x.number != number_) return;
  of_worker& w = workers_[x.worker.value];
  w.mark = x.trained;
  const std::size_t under_way =
      std::min<std::uint64_t>(w.dealt - std::min(w.dealt, x.trained), w.last.size());
  w.again.assign(w.last.end() - static_cast<std::ptrdiff_t>(under_way), w.last.end());
}

void feeder_cut::leave(rank worker) {
  if (worker.value < workers_.size()) workers_[worker.value].gone = true;
}

std::optional<checkpoint_part> feeder_cut::finished(const dealer& of, std::uint64_t switches) {
  if (number_ == 0 || !std::ranges::all_of(workers_, [](const of_worker& w) { return w.mark || w.gone; }))
    return std::nullopt;
  feeder_position here;
  std::vector<std::uint64_t> again;
  for (of_worker& w : workers_) {
    here.trained.push_back(w.mark.value_or(w.dealt));
    again.insert(again.end(), w.again.begin(), w.again.end());
    w.mark.reset();
    w.again.clear();
  }
  here.batches = of.position(std::move(again));
  here.switches = switches;
  const auto fields = std::make_shared<saved_fields>();
  fields->field("feeder", here);
  last_ = number_;
  return checkpoint_part{std::exchange(number_, 0), "feeder", fields};
}

} // namespace mailgrad
