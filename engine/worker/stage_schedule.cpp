#include <mailgrad/engine/worker/stage_schedule.hpp>

#include <algorithm>
#include <ranges>

namespace mailgrad {

stage_schedule::stage_schedule(std::vector<std::vector<part>> parts, std::size_t credits)
    : parts_(std::move(parts)), credits_(credits), arrived_(parts_.size()) {
  for (std::size_t m = 0; m < parts_.size(); ++m)
    for (std::size_t i = 0; i < parts_[m].size(); ++i) {
      lines_[parts_[m][i].number].turns.push_back({m, i});
      ++left_;
    }
}

void stage_schedule::arrive(std::size_t micro_batch, std::size_t segment) {
  arrived_.at(micro_batch).push_back(segment);
}

void stage_schedule::credit(std::size_t segment, std::size_t reader) { --owed_.at({segment, reader}); }

std::optional<stage_schedule::turn> stage_schedule::next() const { return first(true); }

bool stage_schedule::waits_for_credit() const { return !first(true) && first(false); }

std::optional<stage_schedule::turn> stage_schedule::first(bool with_credit) const {
  for (const line& l : lines_ | std::views::values) {
    if (l.ran == l.turns.size()) continue;
    const turn& t = l.turns[l.ran];
    if (has_values(t) && (!with_credit || has_credit(t))) return t;
  }
  return std::nullopt;
}

bool stage_schedule::has_values(const turn& t) const {
  return std::ranges::all_of(part_of(t).reads, [&](std::size_t segment) {
    return std::ranges::find(arrived_[t.micro_batch], segment) != arrived_[t.micro_batch].end();
  });
}

bool stage_schedule::has_credit(const turn& t) const {
  const part& p = part_of(t);
  return std::ranges::all_of(p.readers, [&](std::size_t reader) {
    const auto owed = owed_.find({p.number, reader});
    return owed == owed_.end() || owed->second < credits_;
  });
}

void stage_schedule::ran(const turn& t) {
  const part& p = part_of(t);
  ++lines_.at(p.number).ran;
  --left_;
  for (const std::size_t reader : p.readers) ++owed_[{p.number, reader}];
}

} // namespace mailgrad
