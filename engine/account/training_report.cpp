#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <algorithm>

namespace mailgrad {

void training_report::add_reason(std::string_view clause) {
  if (!why.empty()) why += "; ";
  why += clause;
}

bool training_report::knows_ledger() const {
  const auto told = [](const late_figures& x) { return x.seconds_old.has_value(); };
  return late.empty() || late.size() < shards || std::ranges::any_of(late, told);
}

std::string to_json(const training_report& r) {
  return object_of(figures_of(r)).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string staleness_csv(const training_report& r) {
  std::string text = "shard,worker,gap,count\n";
  for (const exchange_figures& x : r.exchanges) {
    const std::string whose = (x.shard ? std::to_string(*x.shard) : "") + ',' + std::to_string(x.worker);
    for (const auto& [gap, count] : x.gaps.buckets())
      text.append(whose + ',' + std::to_string(gap) + ',' + std::to_string(count) + '\n');
  }
  return text;
}

staleness_histogram staleness_of(const training_report& r, std::uint32_t worker) {
  staleness_histogram all;
  for (const exchange_figures& x : r.exchanges)
    if (x.worker == worker) all.merge(x.gaps);
  return all;
}

} // namespace mailgrad
