#include <mailgrad/actors/remote/admission.hpp>

#include <mailgrad/net/listen_address.hpp>

#include <numeric>

namespace mailgrad::remote {

namespace {

constexpr std::uint64_t gradients_beside = 16 << 20;
constexpr std::uint64_t all_beside = 24 << 20;

/// "worker 3", or "workers 0, 3 and 5 more".
std::string in_words(const std::set<rank>& workers) {
  constexpr std::size_t most_named = 8;
  std::string words = workers.size() == 1 ? "worker " : "workers ";
  std::size_t named = 0;
  for (const rank r : workers) {
    if (named == most_named) return words + fmt::format(" and {} more", workers.size() - named);
    words += (named++ == 0 ? "" : ", ") + std::to_string(r.value);
  }
  return words;
}

/// Of the gradients of these shards, as float32.
std::vector<std::uint64_t> bytes_of_each(const parameter_layout& layout,
                                         const std::vector<std::uint32_t>& shards) {
  std::vector<std::uint64_t> all;
  for (const std::uint32_t s : shards) all.push_back(layout.shard(s).size() * sizeof(float));
  return all;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& all) {
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

} // namespace

transit::transit(std::uint64_t weights, std::uint64_t largest, std::size_t shards) noexcept
    : weights_(weights), most_arriving_(weights + gradients_beside), most_together_(2 * weights + all_beside),
      largest_(largest), shards_(shards) {}

/// What such readers have under way, or are about to.
std::uint64_t transit::bytes_of(speed readers) const {
  const bool slow = readers == speed::slow;
  std::uint64_t theirs = 0;
  for (const auto& [worker, bytes] : arrives_)
    if (is_slow(worker) == slow) theirs += bytes;
  for (const auto& [values, v] : leaves_)
    if (goes_to_slow_alone(v) == slow) theirs += v.bytes;
  return theirs;
}

net::admission::units transit::arriving(rank from, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    arriving_ += bytes;
    arrives_[from] += bytes;
  }
  return units_of([this, from, bytes] {
    arriving_ -= bytes;
    if ((arrives_[from] -= bytes) == 0) arrives_.erase(from);
  });
}

net::admission::units transit::leaving(rank to, std::shared_ptr<const void> values, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = leaves_.try_emplace(values.get(), version{bytes});
    if (is_new) leaving_ += bytes;
    ++found->second.to[to];
    found->second.joins = found->second.joins && !readers_.contains(to);
    if (reader& r = readers_[to]; r.under_way++ == 0) r.since = departed_;
  }
  return units_of([this, to, values = std::move(values)] { note_left(to, values.get()); });
}

/// Who is overtaken by few becomes fast again.
void transit::note_left(rank to, const void* values) {
  const auto found = leaves_.find(values);
  version& v = found->second;
  if (--v.to.at(to) == 0) v.to.erase(to);
  if (v.to.empty()) {
    leaving_ -= v.bytes;
    leaves_.erase(found);
  }
  reader& r = readers_.at(to);
  r.is_slow = departed_ - r.since > most_overtaking();
  r.since = ++departed_; // of what else is under way to it
  --r.under_way;
}

std::string transit::who_fills_it(rank worker) const {
  const std::lock_guard lock(mutex_);
  const bool waits_for_slow = is_slow(worker) && fits();
  std::set<rank> sends, reads;
  for (const auto& [from, bytes] : arrives_)
    if (!waits_for_slow || is_slow(from)) sends.insert(from);
  for (const auto& [values, v] : leaves_)
    for (const auto& [to, count] : v.to)
      if (!waits_for_slow || is_slow(to)) reads.insert(to);
  std::string words;
  if (!sends.empty()) words = fmt::format("the shards to read gradients of {}", in_words(sends));
  if (!reads.empty())
    words += fmt::format("{}{} to take weights", words.empty() ? "" : ", and for ", in_words(reads));
  return words;
}

std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards) {
  if (net::is_memory_address(address)) return nullptr;
  const auto each = bytes_of_each(layout, shards);
  const std::uint64_t largest = each.empty() ? 0 : std::ranges::max(each);
  return std::make_shared<transit>(sum_of(each), largest, shards.size());
}

void gradient_credit::add(std::uint64_t session, rank worker, giving give) {
  change([&] {
    members_[session] = {worker, std::move(give), 0, 0, std::vector<std::size_t>(shards_.size()), 0};
    by_rank_.emplace(worker.value, session);
    all_have_it_ = false;
  });
}

void gradient_credit::remove(std::uint64_t session) {
  change([&] {
    const member* m = find(session);
    if (!m) return;
    by_rank_.erase({m->worker.value, session});
    granted_ -= m->granted;
    members_.erase(session);
  });
}

net::admission::units gradient_credit::arriving(std::uint64_t session, std::uint32_t shard) {
  const std::size_t place = place_of(shard);
  if (place == shards_.size()) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    ++kept_;
    if (member* m = find(session)) {
      if (m->granted > 0) --m->granted, --granted_;
      ++m->arriving;
      ++m->kept[place];
      ++m->of_all_kept;
    }
  }
  return units_of([this, session, place] {
    --kept_;
    if (member* m = find(session)) --m->kept[place], --m->of_all_kept;
  });
}

bool gradient_credit::gives_back(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  member* m = find(session);
  if (!m) return true;
  m->arriving -= std::min<std::size_t>(m->arriving, 1);
  if (has_turns() || m->granted + m->arriving >= shards_.size()) return false;
  ++m->granted;
  ++granted_;
  return true;
}

/// Whom a shard awaits first has credit, whatever others have. True: its gradient is on its way.
bool gradient_credit::serve_first(std::size_t place, calls& after) {
  const std::uint32_t first = awaits_[place].first->value;
  bool comes = false;
  for (auto it = by_rank_.lower_bound({first, 0}); it != by_rank_.end() && it->first == first; ++it) {
    member& m = members_.at(it->second);
    if (m.granted == 0 && m.kept[place] == 0) grant(m, shards_.size(), after);
    comes = comes || m.kept[place] > 0 || m.granted < shards_.size();
  }
  return comes;
}

/// Gives credit to whoever may have some now.
void gradient_credit::settle(calls& after) {
  if (!has_turns()) return give_all(after);
  all_have_it_ = false;
  if (!knows_turns()) return;
  const std::size_t each = shards_.size();
  const std::size_t last = behind();
  serve_firsts(last, after);
  auto next = by_rank_.lower_bound({awaits_[last].first->value, 0});
  for (std::size_t i = 0; i < by_rank_.size() && granted_ + kept_ + each <= most_ * each; ++i, ++next) {
    if (next == by_rank_.end()) next = by_rank_.begin();
    if (member& m = members_.at(next->second); m.granted == 0 && m.of_all_kept == 0) grant(m, each, after);
  }
}

std::optional<rank> gradient_credit::waits_behind(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(session);
  if (found == members_.end() || !knows_turns()) return std::nullopt;
  const member& m = found->second;
  const rank first = *awaits_[behind()].first;
  if (m.granted > 0 || m.of_all_kept > 0 || m.worker == first) return std::nullopt;
  return first;
}

std::shared_ptr<gradient_credit> credit_by(const std::string& address, const parameter_layout& layout,
                                           const std::vector<std::uint32_t>& shards, std::uint32_t slots,
                                           std::uint32_t devices) {
  if (net::is_memory_address(address) || devices > 1 || layout.dense_size() < layout.size()) return nullptr;
  const std::uint64_t each = sum_of(bytes_of_each(layout, shards));
  if (each == 0) return nullptr;
  const std::uint64_t most = std::max<std::uint64_t>((each + gradients_beside) / each, 2);
  return slots <= most ? nullptr : std::make_shared<gradient_credit>(shards, static_cast<std::size_t>(most));
}

void admission_bounds::apply(net::server_options& terms) const {
  if (credit) terms.bodies_of_worker = 0; // they are given some when the shards say whom they await
  if (!on_way) return;
  terms.has_room = [by = on_way](const net::member& who) {
    return who.part != net::role::worker || by->has_room({who.number});
  };
  terms.has_any_room = [by = on_way] { return by->has_any_room(); };
}

} // namespace mailgrad::remote
