#include <mailgrad/actors/piece_schedule.hpp>

#include <algorithm>

namespace mailgrad {

piece_schedule::piece_schedule(std::vector<std::vector<part>> parts, std::size_t credits)
    : credits_(credits) {
  for (auto& p : parts) {
    left_ += p.size();
    std::vector<char> done(p.size(), 0);
    micro_batches_.push_back({std::move(p), std::move(done), {}});
  }
}

void piece_schedule::arrive(std::size_t micro_batch, std::size_t segment) {
  micro_batches_.at(micro_batch).arrived.push_back(segment);
}

void piece_schedule::credit(std::size_t segment, std::size_t reader) { --owed_.at({segment, reader}); }

std::optional<piece_schedule::turn> piece_schedule::next() const { return first(true); }

bool piece_schedule::waits_for_credit() const { return !first(true) && first(false); }

std::optional<piece_schedule::turn> piece_schedule::first(bool with_credit) const {
  std::optional<turn> best;
  std::size_t best_number = 0;
  for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
    const state& s = micro_batches_[m];
    for (std::size_t i = 0; i < s.parts.size(); ++i) {
      const turn t{m, i};
      if (s.done[i] || (best && s.parts[i].number <= best_number)) continue;
      if (!has_values(t) || !in_order(t) || (with_credit && !has_credit(t))) continue;
      best = t;
      best_number = s.parts[i].number;
    }
  }
  return best;
}

bool piece_schedule::has_values(const turn& t) const {
  const state& s = micro_batches_[t.micro_batch];
  return std::ranges::all_of(s.parts[t.part].reads, [&](std::size_t segment) {
    return std::ranges::find(s.arrived, segment) != s.arrived.end();
  });
}

bool piece_schedule::in_order(const turn& t) const {
  const std::size_t number = micro_batches_[t.micro_batch].parts[t.part].number;
  for (std::size_t m = 0; m < t.micro_batch; ++m) {
    const state& s = micro_batches_[m];
    const auto same = std::ranges::find(s.parts, number, &part::number);
    if (same != s.parts.end() && !s.done[static_cast<std::size_t>(same - s.parts.begin())]) return false;
  }
  return true;
}

bool piece_schedule::has_credit(const turn& t) const {
  const part& p = micro_batches_[t.micro_batch].parts[t.part];
  return std::ranges::all_of(p.readers, [&](std::size_t reader) {
    const auto owed = owed_.find({p.number, reader});
    return owed == owed_.end() || owed->second < credits_;
  });
}

void piece_schedule::ran(const turn& t) {
  state& s = micro_batches_.at(t.micro_batch);
  s.done[t.part] = 1;
  --left_;
  for (const std::size_t reader : s.parts[t.part].readers) ++owed_[{s.parts[t.part].number, reader}];
}

} // namespace mailgrad
