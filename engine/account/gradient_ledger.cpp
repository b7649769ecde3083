#include <mailgrad/engine/account/gradient_ledger.hpp>

namespace mailgrad {

std::uint64_t gradient_ledger::discarded_in_all() const {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : discarded) sum += count;
  return sum;
}

std::string to_string(const gradient_ledger& l) {
  std::string reasons;
  for (const auto& [reason, count] : l.discarded)
    reasons += (reasons.empty() ? " (" : ", ") + reason + ' ' + std::to_string(count);
  if (!reasons.empty()) reasons += ')';
  return std::to_string(l.produced) + " produced " + (l.balances() ? "= " : "but ") +
         std::to_string(l.applied) + " applied + " + std::to_string(l.merged) + " merged + " +
         std::to_string(l.discarded_in_all()) + " discarded" + reasons + " + " + std::to_string(l.lost) +
         " lost";
}

} // namespace mailgrad
