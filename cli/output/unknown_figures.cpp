#include <mailgrad/cli/output/unknown_figures.hpp>

#include <mailgrad/actors/protocol/listed.hpp>

#include <fmt/format.h>

namespace mailgrad {

std::string lost_of(const training_report& r) { return mailgrad::listed("shard", r.lost_shards); }

namespace {

/// What stands in the place of figures that lost shards had.
std::string gone_with_shards(const training_report& r) {
  return fmt::format("unknown, since {} had the figures and {} lost", lost_of(r),
                     r.lost_shards.size() == 1 ? "is" : "are");
}

} // namespace

std::string without_lost(const training_report& r) {
  return r.lost_shards.empty() ? "" : fmt::format(", without those of the lost {}", lost_of(r));
}

std::string untold(const training_report& r, const char* none) {
  if (!r.late.empty()) return "unknown";
  return r.lost_shards.empty() ? none : gone_with_shards(r);
}

} // namespace mailgrad
