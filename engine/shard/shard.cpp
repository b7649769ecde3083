#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace mailgrad {

namespace {

/// The reference count of a block without a snapshot: its pool and its shard have a reference each.
constexpr long held_by_nobody_else = 2;

std::vector<float> drawn(const parameter_layout& layout, std::uint32_t index, std::uint64_t seed) {
  std::vector<float> first(layout.shard(index).size());
  layout.initialise_shard(index, seed, first);
  return first;
}

} // namespace

shard::shard(const parameter_layout& layout, std::uint32_t index, std::uint64_t seed,
             const optimizer_options& options, std::shared_ptr<device_queue> at)
    : shard(layout, index, drawn(layout, index, seed), options, std::move(at)) {}

shard::shard(const parameter_layout& layout, std::uint32_t index, std::span<const float> first,
             const optimizer_options& options, std::shared_ptr<device_queue> at)
    : index_(index), range_(layout.shard(index)), weight_count_(layout.weight_count(index)),
      dense_size_(std::min(range_.end, std::max(range_.begin, layout.dense_size())) - range_.begin),
      at_(std::move(at)), blocks_([queue = at_, bytes = (range_.end - range_.begin) * sizeof(float), index] {
        return naming_memory([index] { return fmt::format("the weights of shard {}", index); },
                             [&] { return std::make_shared<memory>(queue->allocate(bytes)); });
      }),
      brought_([queue = at_, bytes = dense_range().end * sizeof(float), index] {
        auto made = std::make_shared<gradient>();
        // Up to the end of the shard, which reads only its own part.
        made->dense = naming_memory([index] { return fmt::format("a gradient for shard {}", index); },
                                    [&] { return queue->allocate(bytes); });
        return made;
      }),
      current_(blocks_.take()), optimizer_(make_optimizer(options, range_.end - range_.begin, *at_,
                                                          variables_for(options, layout, index))),
      base_learning_rate_(mailgrad::base_learning_rate(options)), options_(options),
      whole_variables_(whole_variables_of(layout, index)), alone_(std::make_unique<parallel_update>()),
      log_there_(at_), order_(at_) {
  if (first.size() != range_.size())
    throw shape_error(
        fmt::format("shard: {} first weights, where {} are needed", first.size(), range_.size()));
  at_->write(first, *current_);
  written_ = at_->record();
  for (std::size_t v = 0; v < layout.variables().size(); ++v)
    std::ranges::copy_if(pieces_of_table(layout, v), std::back_inserter(tables_),
                         [&](const table_piece& t) { return t.shard == index_; });
}

void shard::finish() noexcept {
  if (at_) finish_for_good(*at_); // else its state has moved
}

snapshot shard::on_host(const mailgrad::snapshot& values) {
  if (!values || values.owner()->is_on_host()) return values;
  let_go_of_retired(); // there may be no update that would
  const auto copy = std::make_shared<memory>(
      naming_memory([this] { return fmt::format("a copy on the host of the weights of shard {}", index_); },
                    [&] { return at_->lend_on_host(values.owner()->bytes()); }));
  at_->copy_to_host(*values.owner(), 0, *copy);
  const mailgrad::snapshot result(copy, at_->record());
  retired_.push_back({result.ready(), values.owner(), {}});
  return result;
}

snapshot shard::host_snapshot_at_end() {
  if (current_->is_on_host()) return snapshot();
  return copied_at_end(*current_);
}

snapshot shard::host_snapshot_at_end(const gpu_block& block, std::uint64_t updates) {
  for (const device_event& m : block.written()) at_->wait_for(m);
  version_.value += updates;
  return copied_at_end(*block.of(index_).values);
}

snapshot shard::copied_at_end(const memory& values) {
  const auto copy = std::make_shared<memory>(block(values.bytes()));
  at_->copy_to_host(values, 0, *copy);
  at_->finish();
  return mailgrad::snapshot(copy, {});
}

std::shared_ptr<const gradient> shard::reachable(std::shared_ptr<const gradient> g) {
  if (!g || is_beside(g->dense_for(at_->where()), at_->where())) return g;
  require_dense_alone(*g);
  require_dense(g->dense.bytes() / sizeof(float), range_.begin);
  const std::shared_ptr<gradient> here = brought_.take();
  here->covered = g->covered;
  const stream& s = at_->where();
  copy_bytes(s, here->dense.on<float>(s).data() + range_.begin,
             g->dense.on_host<float>().data() + range_.begin, dense_size_ * sizeof(float));
  hold(std::move(g));
  return here;
}

snapshot shard::reachable(const mailgrad::snapshot& values) {
  if (!values || is_beside(*values.owner(), at_->where())) return values;
  const std::shared_ptr<memory> here = blocks_.take();
  std::erase_if(versions_, [&](const auto& known) { return known.first == here.get(); }); // no update's
  const stream& s = at_->where();
  copy_bytes(s, here->on<float>(s).data(), values.owner()->on_host<float>().data(), values.owner()->bytes());
  hold(values.owner());
  return mailgrad::snapshot(here, at_->record());
}

double shard::distance_to(const mailgrad::snapshot& older) const {
  const stream& s = at_->where();
  const double squares = squared_distance(s, std::as_const(*current_).on<float>(s), older.on(s));
  return std::sqrt(squares / static_cast<double>(weight_count_));
}

std::shared_ptr<const memory> shard::measure_distance(const mailgrad::snapshot& given) {
  const stream& s = at_->where();
  const mailgrad::snapshot older = reachable(given);
  constexpr const char* wanted_for = "the distance of a sampled gradient";
  if (distance_.bytes() == 0)
    distance_ = naming_memory(wanted_for, [&] { return at_->allocate(sizeof(double)); });
  squared_distance(s, std::as_const(*current_).on<float>(s), older.on(s), distance_.on<double>(s).data());
  auto squares =
      std::make_shared<memory>(naming_memory(wanted_for, [&] { return at_->lend_on_host(sizeof(double)); }));
  at_->copy_to_host(distance_, 0, *squares);
  hold(older.owner());
  return squares;
}

double shard::distance_of(const memory& measured) const {
  return std::sqrt(measured.on_host<double>()[0] / static_cast<double>(weight_count_));
}

/// That of the present weights, unless somebody may still read them.
std::shared_ptr<memory> shard::block_to_write() {
  return current_.use_count() == held_by_nobody_else ? current_ : blocks_.take();
}

void shard::hold(std::shared_ptr<const void> read) {
  if (const device_event done = at_->record(); read && !done.passed())
    retired_.push_back({done, std::move(read), {}});
}

void shard::let_go_of_retired() {
  while (!retired_.empty() && retired_.front().until.passed()) retired_.pop_front();
}

void shard::keep(archive& a) {
  a.version(1);
  a.field("version", version_);
  a.field("updates", updates_);
  if (!a.reads()) {
    keep(a, "weights", snapshot());
  } else {
    const std::shared_ptr<memory> filled = blocks_.take();
    written_ = fill(*filled, a.array("weights"));
    current_ = filled;
    forget_versions();
  }
  optimizer_->keep(a, *at_);
}

void shard::keep(archive& a, std::string_view name, const mailgrad::snapshot& values) {
  hold_floats(a, name, values.owner(), 0, values.size(), *at_);
}

/// The block is none of the pool, which would keep one for each answer for as long as the shard lives.
mailgrad::snapshot shard::restored(const archived_array& values) {
  const auto filled = std::make_shared<memory>(
      naming_memory([this] { return fmt::format("kept weights of shard {}", index_); },
                    [&] { return at_->allocate(range_.size() * sizeof(float)); }));
  const device_event done = fill(*filled, values);
  if (!done.passed()) retired_.push_back({done, filled, {}});
  return mailgrad::snapshot(filled, done);
}

device_event shard::fill(memory& to, const archived_array& values) {
  if (values.values.size() != range_.size())
    throw archive_error(
        fmt::format("{}: expected {} floats, found {}", values.path, range_.size(), values.values.size()));
  at_->write(values.values, to);
  return at_->record();
}

update_number shard::next_update() const noexcept {
  update_number next(updates_ + 1);
  next.of_weights = version_.value + 1;
  return next;
}

std::span<const float> shard::state(std::string_view name) const {
  for (const optimizer_state& s : optimizer_->state())
    if (s.name == name && s.values.size() == range_.size()) return s.values.first(dense_size_);
  return {};
}

void shard::load(const hogwild_store& store, std::uint64_t updates) {
  const std::shared_ptr<memory> target = block_to_write();
  store.load(range_.begin, target->on_host<float>().first(range_.size()));
  current_ = target;
  version_.value += updates;
  forget_versions(); // the log has no entry of the rows that workers wrote to the store
}

void shard::save(gpu_block& block) {
  gpu_block::piece mine = block.of(index_);
  if (!mine.values)
    mine.values = std::make_shared<memory>(
        naming_memory([this] { return fmt::format("shard {} in the block of hogwild", index_); },
                      [&] { return at_->allocate(current_->bytes()); }));
  const stream& s = at_->where();
  copy_bytes(s, mine.values->on<float>(s).data(), std::as_const(*current_).on<float>(s).data(),
             current_->bytes());
  mine.ready = at_->record();
  block.lay(index_, std::move(mine));
}

void shard::load(const gpu_block& block, std::uint64_t updates) {
  let_go_of_retired();
  for (const device_event& m : block.written()) at_->wait_for(m);
  const std::shared_ptr<memory> target = block_to_write();
  const stream& s = at_->where();
  spare_event_ = at_->record();
  copy_bytes(s, target->on<float>(s).data(), block.of(index_).values->on<float>(s).data(), target->bytes());
  spare_event_ = {};
  written_ = at_->record();
  if (target != current_) retired_.push_back({written_, current_, {}});
  current_ = target;
  version_.value += updates;
  forget_versions();
}

void shard::add_rows_to(gradient_sum& sum, const gradient_rows& part, float scale) const {
  const auto t = std::ranges::find(tables_, part.variable, &table_piece::variable);
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

void shard::update_tables(const parallel_update& done) {
  if (is_on_gpu(*at_)) return update_tables_there(done);
  memory& target = *done.target_;
  const std::span<const float> from = std::as_const(*current_).on_host<float>();
  const std::span<float> to = target.on_host<float>();
  if (&target != current_.get() && !log_.catch_up(version_in(target), from, to))
    std::ranges::copy(from.subspan(dense_size_), to.begin() + static_cast<std::ptrdiff_t>(dense_size_));
  const bool logged = blocks_.size() > 1; // with one block, none is ever behind
  if (logged) log_.begin(version_.value + 1);
  for (const table_piece& t : tables_) {
    rows_.begin(t.variable);
    for (const contribution& c : done.contributions_) rows_.add(*c.values, c.scale * done.share_);
    if (rows_.rows().empty()) continue;
    sparse_update work = rows_for(t, to, done.rate_);
    work.rows = rows_.rows();
    work.values = rows_.values();
    optimizer_->update_rows(at_->where(), work);
    if (!logged) continue;
    for (const std::int32_t row : work.rows)
      if (row >= t.row_begin && row < t.row_end)
        log_.note(t.in_shard + static_cast<std::size_t>(row - t.row_begin) * t.width, t.width);
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
  for (const table_piece& t : tables_) {
    list_rows_there(t, done);
    if (rows_there_.empty()) continue;
    sparse_update work = rows_for(t, to, done.rate_);
    work.gradients = rows_there_;
    work.scratch = order_.of(row_update_bytes(device_kind::cuda, rows_there_));
    optimizer_->update_rows(s, work);
    if (logged)
      log_there_.note(static_cast<std::size_t>(&t - tables_.data()), work.weights.size(), rows_there_);
  }
  if (logged) log_there_.end();
  version_in(target) = version_.value + 1;
}

/// An update of these rows, which still lacks their gradients.
sparse_update shard::rows_for(const table_piece& t, std::span<float> weights, double rate) const {
  return {.weights = weights.subspan(t.in_shard, t.size()),
          .width = t.width,
          .step = next_update(),
          .first = t.in_shard,
          .row_begin = t.row_begin,
          .row_end = t.row_end,
          .rate = rate};
}

/// Memory that is lacking is so before any kernel of the update, which may write in place.
void shard::take_buffers_for_tables(const parallel_update& work) {
  std::size_t listed = 0;
  for (const table_piece& t : tables_) {
    list_rows_there(t, work);
    std::size_t named = 0;
    for (const row_gradient& g : rows_there_) named += g.rows.size();
    if (gpu_row_log::lists_rows(named, t.size())) listed += named;
    if (!rows_there_.empty()) order_.of(row_update_bytes(device_kind::cuda, rows_there_));
  }
  if (listed > 0 && blocks_.size() > 1) log_there_.take_buffer(version_.value + 1, listed);
}

/// Brings the tables of a block of the pool to the version of the latest one, whose weights are `from`.
void shard::catch_up_there(const memory& target, const float* from, float* to) {
  const stream& s = at_->where();
  copies_.clear();
  whole_.clear();
  for (const table_piece& t : tables_)
    whole_.push_back({from + t.in_shard, to + t.in_shard, t.width, t.row_begin, t.row_end});
  if (log_there_.catch_up(version_in(target), whole_, copies_)) return copy_rows(s, copies_);
  copy_bytes(s, to + dense_size_, from + dense_size_, (range_.size() - dense_size_) * sizeof(float));
}

void shard::list_rows_there(const table_piece& t, const parallel_update& done) {
  rows_there_.clear();
  for (const contribution& c : done.contributions_)
    for (const gpu_rows& part : c.values->sparse_on_gpu)
      if (part.variable == t.variable)
        rows_there_.push_back({part.rows, part.values.data(), c.scale * done.share_});
}

void shard::update(std::span<const contribution> gradients, double rate, float share) {
  begin_update(*alone_, gradients, rate, 1, nullptr, share);
  while (alone_->compute_part() == parallel_update::progress::computed) {
  }
  end_update(*alone_);
}

/// Throws if a gradient of `floats` does not reach the end of the dense part, which begins at its `first`.
void shard::require_dense(std::size_t floats, std::size_t first) const {
  const std::size_t needed = dense_size_ == 0 ? 0 : first + dense_size_;
  if (floats < needed)
    throw shape_error(
        fmt::format("shard: a gradient of {} dense weights, where {} are needed", floats, needed));
}

/// Checks only sizes, once for each gradient. The worker is responsible for the values and the row numbers.
void shard::require_fitting(const contribution& c) const {
  if (!c.values) throw shape_error("shard: a contribution has no gradient");
  if (is_on_gpu(*at_)) require_dense_alone(*c.values);
  for (const table_piece& t : tables_)
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
        "shard: rows of tables and sums of several devices lie on the host, and the weights on a GPU");
}

void shard::begin_update(parallel_update& work, std::span<const contribution> gradients, double rate,
                         std::size_t threads, std::shared_ptr<const void> self, float share) {
  for (const contribution& c : gradients) require_fitting(c);
  let_go_of_retired();
  spare_event_ = at_->record(); // while nothing is queued that could not be told of
  work.target_.reset();         // left over from an update that failed
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
  if (is_on_gpu(*at_)) take_buffers_for_tables(work);
  work.parts_.clear();
  work.gradients_.clear();
  if (dense_size_ > 0) {
    optimizer_->prepare(work.step_, rate);
    find_cuts(gradients);
    for (std::size_t i = 1; i < cuts_.size(); ++i) add_part(work, {cuts_[i - 1], cuts_[i]});
  }
  work.missing_ = work.parts_.size();
  work.lay_chunks(threads);
}

void shard::end_update(parallel_update& work) {
  if (!tables_.empty()) update_tables(work);
  spare_event_ = {};
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
  if (has_tables_there() && !g.sparse_on_gpu.empty())
    throw device_error(world_errc::wrong_place,
                       "shard: rows of tables are added up on the host, and these lie on a GPU");
  sum.cover(g.covered);
  sum.add(what.scale, what.dense ? what.dense.on(s).first(dense_size_) : part_of(g), 0);
  const shard_range dense = dense_range();
  for (const dense_addend& further : g.addends) {
    if (what.dense) break; // it includes the addends
    for_each_part(ranges_of(further.covered, dense), dense, [&](const shard_range& r) {
      sum.add(what.scale, further.values.as<float>().subspan(r.begin, r.size()), r.begin - dense.begin);
    });
  }
  for (const gradient_rows& part : g.sparse) add_rows_to(sum, part, what.scale);
  if (const device_event done = at_->record(); !done.passed()) retired_.push_back({done, nullptr, {what}});
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
