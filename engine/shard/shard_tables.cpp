#include <mailgrad/engine/shard/shard.hpp>

#include <mailgrad/kernels/copy_bytes.hpp>

#include <algorithm>
#include <limits>
#include <utility>

// What a shard does with its tables, of which an update changes the rows that gradients list.

namespace mailgrad {

void shard::find_tables(const parameter_layout& layout) {
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    if (!variable.sparse) continue;
    const std::size_t width = variable.dims.size() / variable.dims[0];
    for (const variable_piece& piece : layout.pieces(v))
      if (piece.shard == index_)
        tables_.push_back({v, width, piece.offset_in_shard,
                           static_cast<std::int32_t>(piece.offset_in_variable / width),
                           static_cast<std::int32_t>((piece.offset_in_variable + piece.length) / width)});
  }
}

void shard::add_rows_to(gradient_sum& sum, const gradient_rows& part, float scale) const {
  const auto t = std::ranges::find(tables_, part.variable, &table::variable);
  if (t == tables_.end()) return;
  const gradient_rows listed = listed_rows(part);
  for (std::size_t j = 0; j < listed.rows.size(); ++j) {
    const std::int32_t row = listed.rows[j];
    if (row < t->row_begin || row >= t->row_end) continue;
    sum.add_row(part.variable, row, scale, listed.values.subspan(j * part.width, part.width));
  }
}

/// The version of the tables in a block of the pool; `unknown` for a new block, which cannot catch up.
std::uint64_t& shard::version_in(const memory& b) {
  constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  const auto found = std::ranges::find(versions_, &b, &std::pair<const memory*, std::uint64_t>::first);
  return found != versions_.end() ? found->second : versions_.emplace_back(&b, unknown).second;
}

/// To be called for a block of the pool that gets other values than an update writes.
void shard::forget_version(const memory& b) {
  std::erase_if(versions_, [&b](const auto& known) { return known.first == &b; });
}

void shard::update_tables(const parallel_update& done) {
  if (is_on_card(*at_)) return update_tables_there(done);
  memory& target = *done.target_;
  const std::span<const float> from = std::as_const(*current_).on_host<float>();
  const std::span<float> to = target.on_host<float>();
  if (&target != current_.get() && !log_.catch_up(version_in(target), from, to))
    std::ranges::copy(from.subspan(dense_size_), to.begin() + static_cast<std::ptrdiff_t>(dense_size_));
  const bool logged = blocks_.size() > 1; // with one block, none is ever behind
  if (logged) log_.begin(version_.value + 1);
  for (const table& t : tables_) {
    sparse_update work = rows_of(t, done);
    if (work.rows.empty()) continue;
    work.weights = to.subspan(t.offset, static_cast<std::size_t>(t.row_end - t.row_begin) * t.width);
    work.rate = done.rate_;
    optimizer_->update_rows(at_->where(), work);
    if (logged) note_rows(t, work.rows);
  }
  version_in(target) = version_.value + 1;
}

void shard::update_tables_there(const parallel_update& done) {
  memory& target = *done.target_;
  const stream& s = at_->where();
  const std::span<float> to = target.on<float>(s);
  if (&target != current_.get())
    catch_up_there(target, std::as_const(*current_).on<float>(s).data(), to.data());
  const bool logged = blocks_.size() > 1; // with one block, none is ever behind
  if (logged) log_there_.begin(version_.value + 1);
  for (const table& t : tables_) {
    list_rows_there(t, done);
    if (rows_there_.empty()) continue;
    sparse_update work;
    work.weights = to.subspan(t.offset, static_cast<std::size_t>(t.row_end - t.row_begin) * t.width);
    work.width = t.width;
    work.step = next_update();
    work.first = t.offset;
    work.row_begin = t.row_begin;
    work.row_end = t.row_end;
    work.rate = done.rate_;
    work.gradients = rows_there_;
    work.scratch = order_.of(row_update_bytes(device_kind::cuda, rows_there_));
    optimizer_->update_rows(s, work);
    if (logged)
      log_there_.note(static_cast<std::size_t>(&t - tables_.data()), work.weights.size(), rows_there_);
  }
  if (logged) log_there_.end();
  version_in(target) = version_.value + 1;
}

/// Memory that is lacking is so before any kernel of the update, which may write in place.
void shard::take_room_for_tables(const parallel_update& work) {
  std::size_t listed = 0;
  for (const table& t : tables_) {
    list_rows_there(t, work);
    std::size_t named = 0;
    for (const row_gradient& g : rows_there_) named += g.rows.size();
    const std::size_t floats = static_cast<std::size_t>(t.row_end - t.row_begin) * t.width;
    if (card_row_log::lists_rows(named, floats)) listed += named;
    if (!rows_there_.empty()) order_.of(row_update_bytes(device_kind::cuda, rows_there_));
  }
  if (listed > 0 && blocks_.size() > 1) log_there_.take_room(version_.value + 1, listed);
}

/// Brings the tables of a block of the pool to the version of the latest one, whose weights are `from`.
void shard::catch_up_there(const memory& target, const float* from, float* to) {
  const stream& s = at_->where();
  copies_.clear();
  whole_.clear();
  for (const table& t : tables_)
    whole_.push_back({from + t.offset, to + t.offset, t.width, t.row_begin, t.row_end});
  if (log_there_.catch_up(version_in(target), whole_, copies_)) return copy_rows(s, copies_);
  copy_bytes(s, to + dense_size_, from + dense_size_, (range_.size() - dense_size_) * sizeof(float));
}

void shard::list_rows_there(const table& t, const parallel_update& done) {
  rows_there_.clear();
  for (const contribution& c : done.contributions_)
    for (const card_rows& part : c.values->sparse_on_card)
      if (part.variable == t.variable)
        rows_there_.push_back({part.rows, part.values.data(), c.scale * done.share_});
}

void shard::note_rows(const table& t, std::span<const std::int32_t> rows) {
  for (const std::int32_t row : rows)
    if (row >= t.row_begin && row < t.row_end)
      log_.note(t.offset + static_cast<std::size_t>(row - t.row_begin) * t.width, t.width);
}

sparse_update shard::rows_of(const table& t, const parallel_update& done) {
  rows_.begin(t.variable);
  for (const contribution& c : done.contributions_) rows_.add(*c.values, c.scale * done.share_);
  return {{}, t.width, rows_.rows(), rows_.values(), 1.0F, next_update(), t.offset, t.row_begin, t.row_end};
}

} // namespace mailgrad
