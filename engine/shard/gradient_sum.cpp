#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/kept_memory.hpp>

#include <algorithm>

namespace mailgrad {

gradient_sum::gradient_sum(std::shared_ptr<device_queue> at, std::size_t dense_size)
    : at_(std::move(at)),
      dense_(std::make_shared<memory>(
          naming_memory("a sum of gradients", [&] { return at_->allocate(dense_size * sizeof(float)); }))),
      sum_(std::make_shared<gradient>()) {}

void gradient_sum::clear() {
  any_ = all_ = false;
  covered_.clear();
  for (table& t : tables_) {
    t.rows.clear();
    t.values.clear();
    t.place.clear();
  }
}

void gradient_sum::add(float scale, std::span<const float> values, std::size_t begin) {
  const stream& s = at_->where();
  const std::span<float> whole = dense_->on<float>(s);
  const bool first = !std::exchange(any_, true);
  if (first && values.size() == whole.size()) return begin_sum(s, scale, values, whole);
  if (first) fill(s, 0, whole);
  add_to_sum(s, scale, values, whole.subspan(begin, values.size()));
}

void gradient_sum::cover(const std::shared_ptr<const coverage>& ranges) {
  if (!ranges) {
    all_ = true;
    return;
  }
  covered_.insert(covered_.end(), ranges->begin(), ranges->end());
  covered_ = joined_ranges(std::move(covered_));
}

void gradient_sum::add_row(std::size_t variable, std::int32_t row, float scale,
                           std::span<const float> values) {
  auto found = std::ranges::find(tables_, variable, &table::variable);
  if (found == tables_.end()) {
    tables_.push_back({variable, values.size(), {}, {}, {}});
    found = std::prev(tables_.end());
  }
  const auto [place, is_new] = found->place.try_emplace(row, found->rows.size());
  if (is_new) {
    found->rows.push_back(row);
    found->values.resize(found->values.size() + found->width);
  }
  const std::span<float> sum = std::span(found->values).subspan(place->second * found->width, found->width);
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += scale * values[c];
}

contribution gradient_sum::result() {
  if (!any_) fill(at_->where(), 0, dense_->on<float>(at_->where()));
  sum_->covered = all_ ? nullptr : std::make_shared<const coverage>(covered_);
  sum_->sparse.clear();
  for (const table& t : tables_)
    if (!t.rows.empty()) sum_->sparse.push_back({t.variable, t.width, t.rows, t.values});
  return {sum_, 1, snapshot(dense_, at_->record())};
}

void gradient_sum::table::keep(archive& a) {
  a.fields({"variable", "width", "rows"}, variable, width, rows);
  values.resize(rows.size() * width);
  a.floats("values", values);
  if (!a.reads()) return;
  place.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) place.emplace(rows[i], i);
}

void gradient_sum::keep(archive& a) {
  a.field("any", any_);
  a.field("covers_all", all_);
  keep_ranges(a, "covered", covered_);
  a.field("tables", tables_);
  if (any_) keep_floats(a, "dense", *dense_, *at_);
}

} // namespace mailgrad
