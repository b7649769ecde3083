#include <mailgrad/actors/remote/gradient_credit.hpp>

#include <mailgrad/net/listen_address.hpp>

#include <algorithm>
#include <numeric>

namespace mailgrad::remote {

namespace {

/// Beside one gradient; as much as may be in transit.
constexpr std::uint64_t kept_beside = 16 << 20;

} // namespace

/// What a gradient holds until it is added up.
struct gradient_credit::kept_gradient {
  kept_gradient(std::shared_ptr<gradient_credit> of_all, std::uint64_t from, std::size_t at)
      : of(std::move(of_all)), session(from), place(at) {}
  kept_gradient(const kept_gradient&) = delete;
  kept_gradient& operator=(const kept_gradient&) = delete;
  ~kept_gradient() { of->let_go(session, place); }

  std::shared_ptr<gradient_credit> of;
  std::uint64_t session;
  std::size_t place;
};

gradient_credit::gradient_credit(std::vector<std::uint32_t> shards, std::size_t most)
    : shards_(std::move(shards)), most_(std::max<std::size_t>(most, 1)), awaits_(shards_.size()) {}

std::size_t gradient_credit::place_of(std::uint32_t shard) const {
  return static_cast<std::size_t>(std::ranges::find(shards_, shard) - shards_.begin());
}

/// Makes a change, and gives whoever has credit by it.
template <class Change>
void gradient_credit::change(const Change& what) {
  gifts all;
  {
    const std::lock_guard lock(mutex_);
    what();
    settle(all);
  }
  for (const auto& [give, bodies] : all) give(bodies);
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
    const auto found = members_.find(session);
    if (found == members_.end()) return;
    by_rank_.erase({found->second.worker.value, session});
    granted_ -= found->second.granted;
    members_.erase(found);
  });
}

std::shared_ptr<const void> gradient_credit::arriving(std::uint64_t session, std::uint32_t shard) {
  const std::size_t place = place_of(shard);
  if (place == shards_.size()) return nullptr;
  auto made = std::make_shared<const kept_gradient>(shared_from_this(), session, place);
  const std::lock_guard lock(mutex_);
  ++kept_;
  if (const auto found = members_.find(session); found != members_.end()) {
    member& m = found->second;
    if (m.granted > 0) --m.granted, --granted_;
    ++m.arriving;
    ++m.kept[place];
    ++m.of_all_kept;
  }
  return made;
}

bool gradient_credit::gives_back(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(session);
  if (found == members_.end()) return true;
  member& m = found->second;
  m.arriving -= std::min<std::size_t>(m.arriving, 1);
  if (has_turns() || m.granted + m.arriving >= shards_.size()) return false;
  ++m.granted;
  ++granted_;
  return true;
}

void gradient_credit::let_go(std::uint64_t session, std::size_t place) {
  change([&] {
    --kept_;
    const auto found = members_.find(session);
    if (found == members_.end()) return;
    --found->second.kept[place];
    --found->second.of_all_kept;
  });
}

void gradient_credit::await(std::uint32_t shard, std::optional<rank> first, version_number version) {
  const std::size_t place = place_of(shard);
  if (place == shards_.size()) return;
  change([&] { awaits_[place] = {true, first, version}; });
}

/// Shards switch their policy one after the other. While some have no turns, nobody waits for those of the
/// others.
bool gradient_credit::has_turns() const {
  return std::ranges::all_of(awaits_, [](const awaited& a) { return !a.told || a.first; });
}

/// The place of the shard whose sum is behind those of the others.
std::size_t gradient_credit::behind() const {
  const auto found = std::ranges::min_element(awaits_, {}, [](const awaited& a) {
    return std::pair(a.version.value, a.first.value_or(rank{}).value);
  });
  return static_cast<std::size_t>(found - awaits_.begin());
}

void gradient_credit::grant(member& m, std::size_t count, gifts& all) {
  if (count == 0) return;
  m.granted += count;
  granted_ += count;
  all.emplace_back(m.give, static_cast<std::uint32_t>(count));
}

void gradient_credit::give_all(gifts& all) {
  if (std::exchange(all_have_it_, true)) return;
  const std::size_t each = shards_.size();
  for (auto& [session, m] : members_) grant(m, each - std::min(each, m.granted + m.arriving), all);
}

/// Whom a shard awaits first has credit, whatever others have. True: its gradient is on its way.
bool gradient_credit::serve_first(std::size_t place, gifts& all) {
  const std::uint32_t first = awaits_[place].first->value;
  bool comes = false;
  for (auto it = by_rank_.lower_bound({first, 0}); it != by_rank_.end() && it->first == first; ++it) {
    member& m = members_.at(it->second);
    if (m.granted == 0 && m.kept[place] == 0) grant(m, shards_.size(), all);
    comes = comes || m.kept[place] > 0 || m.granted < shards_.size();
  }
  return comes;
}

/// A worker sends to all shards what it sends to one. So if the first that is awaited has begun, the others
/// are behind it. If not, it may wait itself for what another shard answers, as one does that was lost
/// between two of them and has come again.
void gradient_credit::serve_firsts(std::size_t behind, gifts& all) {
  if (serve_first(behind, all)) return;
  for (std::size_t place = 0; place < awaits_.size(); ++place)
    if (awaits_[place].first != awaits_[behind].first) serve_first(place, all);
}

/// Gives credit to whoever may have some now.
void gradient_credit::settle(gifts& all) {
  if (!has_turns()) return give_all(all);
  all_have_it_ = false;
  if (!std::ranges::all_of(awaits_, &awaited::told)) return;
  const std::size_t each = shards_.size();
  const std::size_t last = behind();
  serve_firsts(last, all);
  auto next = by_rank_.lower_bound({awaits_[last].first->value, 0});
  for (std::size_t i = 0; i < by_rank_.size() && granted_ + kept_ + each <= most_ * each; ++i, ++next) {
    if (next == by_rank_.end()) next = by_rank_.begin();
    if (member& m = members_.at(next->second); m.granted == 0 && m.of_all_kept == 0) grant(m, each, all);
  }
}

std::optional<rank> gradient_credit::waits_behind(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(session);
  if (found == members_.end() || !has_turns() || !std::ranges::all_of(awaits_, &awaited::told))
    return std::nullopt;
  const member& m = found->second;
  const rank first = *awaits_[behind()].first;
  if (m.granted > 0 || m.of_all_kept > 0 || m.worker == first) return std::nullopt;
  return first;
}

std::shared_ptr<gradient_credit> credit_by(const std::string& address, const parameter_layout& layout,
                                           const std::vector<std::uint32_t>& shards, std::uint32_t seats,
                                           std::uint32_t devices) {
  if (net::is_memory_address(address) || devices > 1 || layout.dense_size() < layout.size()) return nullptr;
  const std::uint64_t each = std::accumulate(
      shards.begin(), shards.end(), std::uint64_t{0},
      [&](std::uint64_t all, std::uint32_t s) { return all + layout.shard(s).size() * sizeof(float); });
  if (each == 0) return nullptr;
  const std::uint64_t most = std::max<std::uint64_t>((each + kept_beside) / each, 2);
  return seats <= most ? nullptr : std::make_shared<gradient_credit>(shards, static_cast<std::size_t>(most));
}

} // namespace mailgrad::remote
