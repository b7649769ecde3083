#include <mailgrad/cli/output/ledger_words.hpp>

#include <mailgrad/cli/output/summary_column.hpp>
#include <mailgrad/cli/output/unknown_figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace mailgrad {

namespace {

/// While the run goes on, workers and shards tell what they have done at different moments: what shards have
/// taken was certainly produced, and the rest is under way.
std::string ledger_in_words(const training_report& r) {
  if (!r.knows_ledger()) return "unknown, since no shard has told what became of them";
  if (r.ended != "running")
    return to_string(r.ledger) + (r.kept_ledger ? ", as of the lost " + lost_of(r) : "");
  gradient_ledger taken = r.ledger;
  taken.produced = taken.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, taken.produced);
  const char* where = r.late.empty() ? "under way" : "under way or not told of yet";
  return to_string(taken) + (under_way == 0 ? "" : fmt::format("; {} more {}", under_way, where));
}

} // namespace

std::string updates_in_words(const training_report& r) {
  return r.knows_ledger() && (r.updates > 0 || r.lost_shards.empty()) ? fmt::format("{}", r.updates)
                                                                      : untold(r, "unknown");
}

std::string ledger_lines(const training_report& r) {
  std::string text = "gradients     " + ledger_in_words(r) + '\n';
  if (r.kept_ledger)
    text += summary_column(fmt::format("  shard {}", r.kept_ledger->shard)) +
            to_string(r.kept_ledger->counts) + '\n';
  return text;
}

} // namespace mailgrad
