#include <mailgrad/engine/shard/shard.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

// What a shard does with gradients: it checks that they fit, and updates its weights with them or adds them
// up.

namespace mailgrad {

void shard::update(std::span<const contribution> gradients, double rate, float share) {
  begin_update(*alone_, gradients, rate, 1, nullptr, share);
  while (alone_->compute_part() == parallel_update::progress::computed) {
  }
  end_update(*alone_);
}

/// Throws if a gradient of `floats` does not reach the end of the shard's dense part, which begins at float
/// `first` of it.
void shard::require_dense(std::size_t floats, std::size_t first) const {
  const std::size_t needed = dense_size_ == 0 ? 0 : first + dense_size_;
  if (floats < needed)
    throw shape_error(
        fmt::format("shard: a gradient of {} dense weights, where {} are needed", floats, needed));
}

/// Checks only sizes, once for each gradient. The worker is responsible for the values and the row numbers.
void shard::require_fitting(const contribution& c) const {
  if (!c.values) throw shape_error("shard: a contribution has no gradient");
  if (is_on_card(*at_)) require_dense_alone(*c.values);
  for (const table& t : tables_)
    for (const gradient_rows& part : c.values->sparse)
      if (part.variable == t.variable && part.values.size() / t.width < part.rows.size())
        throw shape_error(fmt::format("shard: a gradient of {} values for {} rows of {}", part.values.size(),
                                      part.rows.size(), t.width));
  if (c.dense) return require_dense(c.dense.size(), 0);
  require_dense(c.values->dense.bytes() / sizeof(float), range_.begin);
  for (const dense_addend& further : c.values->addends)
    if (!further.covered || !further.covered->empty())
      require_dense(further.values.bytes() / sizeof(float), range_.begin);
}

void shard::require_dense_alone(const gradient& g) const {
  if (!g.addends.empty() || !g.sparse.empty())
    throw device_error(
        world_errc::wrong_place,
        "shard: rows of tables and sums of several devices lie on the host, and the weights on a card");
}

void shard::begin_update(parallel_update& work, std::span<const contribution> gradients, double rate,
                         std::size_t threads, std::shared_ptr<const void> self, float share) {
  for (const contribution& c : gradients) require_fitting(c);
  let_go_of_retired();
  room_for_mark_ = at_->record(); // while nothing is queued that could not be told of
  work.target_.reset();           // left over from an update that failed
  work.target_ = block_to_write();
  work.where_ = at_->where();
  work.from_ = std::as_const(*current_).on<float>(work.where_).first(dense_size_);
  work.to_ = work.target_->on<float>(work.where_).first(dense_size_);
  work.owner_ = std::move(self);
  work.contributions_.assign(gradients.begin(), gradients.end());
  work.rule_ = optimizer_.get();
  work.step_ = next_update();
  work.rate_ = rate;
  work.share_ = share;
  if (is_on_card(*at_)) take_room_for_tables(work);
  work.parts_.clear();
  work.gradients_.clear();
  if (dense_size_ > 0) {
    optimizer_->prepare(work.step_, rate);
    find_cuts(gradients);
    for (std::size_t i = 1; i < cuts_.size(); ++i) add_part(work, {cuts_[i - 1], cuts_[i]});
  }
  work.missing_ = work.parts_.size();
  work.lay_lanes(threads);
}

void shard::end_update(parallel_update& work) {
  if (!tables_.empty()) update_tables(work);
  room_for_mark_ = {};
  written_ = at_->record();
  if (!written_.passed())
    retired_.push_back(
        {written_, work.target_ == current_ ? nullptr : current_, std::move(work.contributions_)});
  current_ = std::move(work.target_);
  work.contributions_.clear();
  work.owner_.reset();
  ++version_;
  ++updates_;
}

void shard::add_to(gradient_sum& sum, const contribution& what) {
  require_fitting(what);
  const stream& s = at_->where();
  const gradient& g = *what.values;
  if (has_tables_there() && !g.sparse_on_card.empty())
    throw device_error(world_errc::wrong_place,
                       "shard: rows of tables are added up on the host, and these lie on a card");
  sum.cover(g.covered);
  sum.add(what.scale, what.dense ? what.dense.on(s).first(dense_size_) : part_of(g), 0);
  const shard_range dense{range_.begin, range_.begin + dense_size_};
  for (const dense_addend& further : g.addends) {
    if (what.dense) break; // it includes the addends
    for (const shard_range& r : overlaps(ranges_of(further.covered, dense), dense))
      sum.add(what.scale, further.values.as<float>().subspan(r.begin, r.size()), r.begin - dense.begin);
  }
  for (const gradient_rows& part : g.sparse) add_rows_to(sum, part, what.scale);
  if (const mark done = at_->record(); !done.passed()) retired_.push_back({done, nullptr, {what}});
}

std::span<const float> shard::part_of(const gradient& g) const {
  require_dense(g.dense.bytes() / sizeof(float), range_.begin);
  if (dense_size_ == 0) return {};
  return g.dense_for(at_->where()).on<float>(at_->where()).subspan(range_.begin, dense_size_);
}

void shard::find_cuts(std::span<const contribution> gradients) {
  cuts_.assign({0, dense_size_});
  for (const contribution& c : gradients) {
    cut_at(c.values->covered);
    for (const dense_addend& further : c.values->addends) cut_at(further.covered);
  }
  if (threads_help())
    for (std::size_t at = parallel_update::part_size; at < dense_size_; at += parallel_update::part_size)
      cuts_.push_back(at);
  std::ranges::sort(cuts_);
  const auto repeats = std::ranges::unique(cuts_);
  cuts_.erase(repeats.begin(), repeats.end());
}

void shard::cut_at(const std::shared_ptr<const coverage>& covered) {
  if (!covered) return;
  for (const shard_range& r : *covered)
    for (const std::size_t end : {r.begin, r.end})
      if (end > range_.begin && end < range_.begin + dense_size_) cuts_.push_back(end - range_.begin);
}

/// Collects the gradients of a part, in the order of the contributions and of the addends of each.
void shard::add_part(parallel_update& work, const shard_range& where) const {
  const std::size_t first = work.gradients_.size();
  const shard_range in_model{range_.begin + where.begin, range_.begin + where.end};
  for (const contribution& c : work.contributions_) {
    if (!covers(c.values->covered, in_model)) continue;
    const float* const whole = c.dense ? c.dense.on(work.where_).data() : part_of(*c.values).data();
    work.gradients_.push_back({whole + where.begin, c.scale});
    if (c.dense) continue;
    for (const dense_addend& further : c.values->addends)
      if (covers(further.covered, in_model))
        work.gradients_.push_back({further.values.as<float>().data() + in_model.begin, c.scale});
  }
  const std::size_t count = work.gradients_.size() - first;
  work.parts_.push_back({where, first, count, count > 0 || work.contributions_.empty()});
}

} // namespace mailgrad
