#include <mailgrad/engine/account/gradient_ledger.hpp>

#include <fmt/format.h>

namespace mailgrad {

std::uint64_t gradient_ledger::discarded_in_all() const {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : discarded) sum += count;
  return sum;
}

std::string to_string(const gradient_ledger& l) {
  std::string reasons;
  for (const auto& [reason, count] : l.discarded)
    reasons += fmt::format("{}{} {}", reasons.empty() ? " (" : ", ", reason, count);
  if (!reasons.empty()) reasons += ')';
  return fmt::format("{} produced {} {} applied + {} merged + {} discarded{} + {} lost", l.produced,
                     l.balances() ? "=" : "but", l.applied, l.merged, l.discarded_in_all(), reasons, l.lost);
}

} // namespace mailgrad
