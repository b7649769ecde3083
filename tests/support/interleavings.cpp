#include <mailgrad/tests/support/interleavings.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace mailgrad::testing {

namespace {

/// What is asked of whom, and in which state: two states are one for this only if the same actors still
/// listen, since what is said to one that has ended is never seen.
std::uint64_t question(std::uint32_t ended, std::uint32_t history, place from, std::uint32_t text) {
  if (ended >= 1U << outside || history >= 1U << 24 || text >= 1U << 20)
    throw std::length_error("interleavings: too many states of one actor, or too many messages");
  return std::uint64_t{ended} << 48 | std::uint64_t{history} << 24 | std::uint64_t{from} << 20 | text;
}

void append(std::string& key, std::uint32_t number) {
  for (int shift = 0; shift < 24; shift += 8) key += static_cast<char>(number >> shift & 0xff);
}

} // namespace

exploration interleavings::explore() {
  path_.clear();
  found_.runs = visit(birth());
  found_.states = seen_.size();
  return found_;
}

void interleavings::confirm(std::mt19937_64& random, std::size_t runs) {
  for (std::size_t run = 0; run < runs && !stopped(); ++run) {
    path_.clear();
    state at = birth();
    for (auto lines = ready_lines(at); !lines.empty() && !stopped(); lines = ready_lines(at))
      deliver(at, lines[random() % lines.size()]);
    if (stopped()) return;
    bring_real_actors_here();
    EXPECT_TRUE(seen_.contains(key_of(at))) << "the exploration did not come to this end";
  }
}

/// Every run begins alike.
interleavings::state interleavings::birth() {
  real_.reset(); // before the next: they share a scheduler
  real_ = actors_.start();
  real_path_.clear();
  ++found_.replays;
  state at;
  for (std::size_t a = 0; a < actors_.count(); ++a)
    at.histories.push_back(number_of(static_cast<place>(a), {}));
  post(at, in_numbers(real_->begin()));
  return at;
}

/// The number of runs from here to an end.
double interleavings::visit(state at) {
  const std::size_t depth = path_.size();
  settle(at);
  if (stopped()) return 0;
  const std::string key = key_of(at);
  const auto [known, is_new] = seen_.try_emplace(key, 0);
  double runs = 0;
  if (!is_new) {
    ++found_.merged;
    runs = known->second;
  } else {
    const std::vector<line> lines = ready_lines(at);
    for (const line on : lines) {
      const std::size_t here = path_.size();
      state next = at;
      deliver(next, on);
      runs += visit(std::move(next));
      path_.resize(here);
      if (stopped()) return runs;
    }
    if (lines.empty()) {
      check_end(at);
      ++found_.ends;
      runs = 1;
    }
    seen_[key] = runs;
  }
  path_.resize(depth);
  return runs;
}

/// Delivers all that goes first: no state on the way is worth keeping.
void interleavings::settle(state& at) {
  while (!stopped()) {
    const std::vector<line> lines = ready_lines(at);
    const auto first = std::ranges::find_if(lines, [&](line on) { return goes_first(at, on); });
    if (first == lines.end()) return;
    deliver(at, *first);
  }
}

void interleavings::deliver(state& at, line on) {
  const auto m = std::ranges::find(at.under_way, on, &message::on);
  const answer& given = answer_of(at, *m);
  path_.push_back({*m, &given});
  at.under_way.erase(m);
  at.histories[on.to] = given.history;
  if (given.ends) {
    at.ended |= 1U << on.to;
    std::erase_if(at.under_way, [&](const message& other) { return other.on.to == on.to; });
  }
  post(at, given.says);
  stopped();
}

void interleavings::post(state& at, const std::vector<message>& what) const {
  for (const message& m : what)
    if (m.on.to == outside || (at.ended >> m.on.to & 1) == 0)
      at.under_way.insert(std::ranges::upper_bound(at.under_way, m.on, {}, &message::on), m);
}

const interleavings::answer& interleavings::answer_of(const state& at, const message& m) {
  const std::uint64_t key = question(at.ended, at.histories[m.on.to], m.on.from, m.text);
  if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  ++found_.answers;
  return answers_.emplace(key, ask(at, m)).first->second;
}

interleavings::answer interleavings::ask(const state& at, const message& m) {
  bring_real_actors_here();
  const std::vector<posted> says = real_->deliver(m.on);
  real_path_.push_back(m.on);
  history now = histories_[at.histories[m.on.to]];
  if (auto trace = actors_.remembered(m.on.to, now, {true, m.on.from, texts_[m.text]}))
    now.push_back(std::move(*trace));
  for (const posted& p : says) now.push_back({false, p.on.to, p.text});
  std::ranges::sort(now);
  return {number_of(m.on.to, std::move(now)), real_->has_ended(m.on.to), in_numbers(says)};
}

/// Follows the search, on from where the real actors stand or from their birth.
void interleavings::bring_real_actors_here() {
  const bool on_the_way = real_ && real_path_.size() <= path_.size() &&
                          std::ranges::equal(real_path_.begin(), real_path_.end(), path_.begin(),
                                             path_.begin() + static_cast<std::ptrdiff_t>(real_path_.size()),
                                             {}, {}, [](const delivery& d) { return d.what.on; });
  if (!on_the_way) birth();
  while (real_path_.size() < path_.size()) {
    const delivery& d = path_[real_path_.size()];
    const std::vector<message> says = in_numbers(real_->deliver(d.what.on));
    real_path_.push_back(d.what.on);
    const bool same = std::ranges::equal(says, d.given->says, [](const message& a, const message& b) {
      return a.on == b.on && a.text == b.text;
    });
    EXPECT_TRUE(same) << actors_.name(d.what.on.to) << " answers delivery " << real_path_.size()
                      << " otherwise than in a state that was thought to be the same";
  }
}

void interleavings::check_end(const state& at) {
  std::vector<std::string> told;
  for (const message& m : at.under_way)
    if (m.on.to == outside) told.push_back(texts_[m.text]);
  actors_.check_end(told);
  stopped();
}

/// After the first failure nothing is looked for any more.
bool interleavings::stopped() {
  if (!stopped_ && ::testing::Test::HasFailure()) {
    stopped_ = true;
    ADD_FAILURE() << "after these deliveries:\n" << schedule();
  }
  return stopped_;
}

std::vector<line> interleavings::ready_lines(const state& at) const {
  std::vector<line> lines;
  for (const message& m : at.under_way)
    if (m.on.to != outside && (lines.empty() || lines.back() != m.on)) lines.push_back(m.on);
  return lines;
}

bool interleavings::goes_first(const state& at, line on) {
  const message& m = *std::ranges::find(at.under_way, on, &message::on);
  const std::uint32_t so_far = at.histories[m.on.to];
  const auto [known, is_new] = first_.try_emplace(question(0, so_far, m.on.from, m.text), false);
  if (is_new) known->second = actors_.goes_first(m.on.to, histories_[so_far], texts_[m.text]);
  return known->second;
}

std::vector<interleavings::message> interleavings::in_numbers(const std::vector<posted>& what) {
  std::vector<message> numbers;
  for (const posted& p : what) numbers.push_back({p.on, number_of(p.text)});
  return numbers;
}

std::uint32_t interleavings::number_of(const std::string& text) {
  const auto [known, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return known->second;
}

std::uint32_t interleavings::number_of(place actor, history of) {
  const auto [known, is_new] =
      history_numbers_.try_emplace({actor, of}, static_cast<std::uint32_t>(histories_.size()));
  if (is_new) histories_.push_back(std::move(of));
  return known->second;
}

std::string interleavings::key_of(const state& at) const {
  std::string key;
  key.reserve(3 * at.histories.size() + 4 * at.under_way.size());
  for (const std::uint32_t h : at.histories) append(key, h);
  for (const message& m : at.under_way) {
    key += static_cast<char>(m.on.from << 4 | m.on.to);
    append(key, m.text);
  }
  return key;
}

std::string interleavings::schedule() const {
  std::ostringstream out;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    const message& m = path_[i].what;
    out << "  " << i + 1 << ". " << actors_.name(m.on.from) << " -> " << actors_.name(m.on.to) << ": "
        << texts_[m.text] << '\n';
  }
  return out.str();
}

} // namespace mailgrad::testing
