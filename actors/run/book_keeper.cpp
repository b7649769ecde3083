#include <mailgrad/actors/run/book_keeper.hpp>

namespace mailgrad {

book_keeper::book_keeper(caf::event_based_actor* self, std::uint32_t workers, std::uint32_t slots,
                         const std::vector<caf::actor>& shards, const std::vector<worker_report>& before,
                         teller tell, std::shared_ptr<const time_source> time)
    : actor_part(self), tell_(std::move(tell)), time_(std::move(time)), devices_(slots),
      copies_(shards.size()), books_(nothing_told(workers)) {
  for (const caf::actor& shard : shards) shards_.push_back({shard});
  for (std::uint32_t r = 0; r < std::min<std::size_t>(workers, before.size()); ++r) {
    books_.workers[r] = before[r];
    books_.workers[r].worker = {r};
  }
}

/// Whoever joins later has nothing to tell of what was asked before.
void book_keeper::on_joined(rank worker, const caf::actor& device) {
  devices_[worker.value] = {device, false, request_, request_};
  for (auto r = static_cast<std::uint32_t>(books_.workers.size()); r <= worker.value; ++r) {
    books_.workers.emplace_back().worker = {r};
    books_.lost.push_back(false);
    books_.unreported.push_back(true);
  }
}

void book_keeper::on_gone(const worker_report& report, bool lost, const switches& done) {
  const std::uint32_t r = report.worker.value;
  devices_[r] = {};
  books_.lost[r] = lost;
  books_.unreported[r] = false; // nothing more will be known
  if (!lost) books_.workers[r] = report;
  if (report.last_losses.samples() > 0) books_.workers[r].last_losses = report.last_losses; // it may be lost
  tell_if_all_answered(done);
}

void book_keeper::on_shard_lost(shard_index shard, const switches& done) {
  if (shard.value >= shards_.size()) return;
  teller_of_books& gone = shards_[shard.value];
  const std::optional<instant> told_at = gone.told_at;
  gone = {};
  gone.told_at = told_at;
  tell_if_all_answered(done);
}

void book_keeper::on_reported(const shard_report& x, const switches& done) {
  if (x.shard.value >= copies_.size()) return; // shards that tell no books
  shards_[x.shard.value] = {};
  shards_[x.shard.value].has_reported = true;
  copies_[x.shard.value] = {x.shard, x.version, x.workers, {}, {}};
  tell_if_all_answered(done);
}

void book_keeper::gather(std::uint64_t request, const switches& done) {
  if (!tell_) return;
  request_ = std::max(request_, request); // threads may overtake each other on their way here
  for (teller_of_books& shard : shards_) ask(shard);
  for (teller_of_books& device : devices_) ask(device);
  tell_if_all_answered(done);
}

void book_keeper::tell(std::uint64_t request, const switches& done) const {
  if (!tell_) return;
  run_outcome books = books_;
  for (const shard_report& copy : copies_)
    if (!copy.workers.empty()) books.shards.push_back(copy);
  books.switches = done;
  books.late = late_for(request);
  tell_(request, books);
}

std::vector<late_figures> book_keeper::late_for(std::uint64_t request) const {
  std::vector<late_figures> all;
  const instant now = time_->now();
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const teller_of_books& x = shards_[s];
    if (x.has_reported || (x.who && x.answered >= request)) continue;
    all.push_back({s, x.told_at ? std::optional(in_seconds(now - *x.told_at)) : std::nullopt});
  }
  return all;
}

void book_keeper::tell_if_all_answered(const switches& done) {
  if (told_ == request_) return; // nobody asks
  std::uint64_t answered = request_;
  for (const auto* all : {&devices_, &shards_})
    for (const teller_of_books& x : *all)
      if (x.who) answered = std::min(answered, x.answered);
  if (answered > told_) tell(told_ = answered, done);
}

/// A copy that comes after the worker's last report is older than that.
void book_keeper::take(const worker_books& x, const switches& done) {
  const std::uint32_t r = x.so_far.worker.value;
  if (r >= devices_.size() || !devices_[r].who) return;
  note_answer(devices_[r]);
  books_.workers[r] = x.so_far;
  books_.unreported[r] = false;
  tell_if_all_answered(done);
}

void book_keeper::take(const shard_books& x, const switches& done) {
  const std::uint32_t s = x.so_far.shard.value;
  if (s >= copies_.size() || shards_[s].has_reported)
    return; // the first of a process that is not as it should be
  copies_[s] = x.so_far;
  shards_[s].told_at = time_->now();
  note_answer(shards_[s]);
  tell_if_all_answered(done);
}

} // namespace mailgrad
