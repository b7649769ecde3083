#include <mailgrad/engine/shard/shard.hpp>

#include <mailgrad/engine/model/shard_variables.hpp>
#include <mailgrad/kernels/copy_bytes.hpp>
#include <mailgrad/kernels/distance.hpp>
#include <mailgrad/optim/kept_memory.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

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
             const optimizer_options& options, std::shared_ptr<lane> at)
    : shard(layout, index, drawn(layout, index, seed), options, std::move(at)) {}

shard::shard(const parameter_layout& layout, std::uint32_t index, std::span<const float> first,
             const optimizer_options& options, std::shared_ptr<lane> at)
    : index_(index), range_(layout.shard(index)), weight_count_(layout.weight_count(index)),
      dense_size_(std::min(range_.end, std::max(range_.begin, layout.dense_size())) - range_.begin),
      at_(std::move(at)), blocks_([lane = at_, bytes = (range_.end - range_.begin) * sizeof(float), index] {
        return naming_memory([index] { return fmt::format("the weights of shard {}", index); },
                             [&] { return std::make_shared<memory>(lane->allocate(bytes)); });
      }),
      brought_([lane = at_, bytes = dense_range().end * sizeof(float), index] {
        auto made = std::make_shared<gradient>();
        // Up to the end of the shard, which reads only its own part.
        made->dense = naming_memory([index] { return fmt::format("a gradient for shard {}", index); },
                                    [&] { return lane->allocate(bytes); });
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
  find_tables(layout);
}

shard::~shard() { finish(); }

void shard::finish() noexcept {
  if (!at_) return; // its state has moved
  try {
    at_->finish(); // before the memory goes that the lane still reads and writes
  } catch (const device_error&) {
    // The card is lost, and nothing of it runs any more.
  }
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

snapshot shard::host_snapshot_at_end(const card_block& block, std::uint64_t updates) {
  for (const mark& m : block.written()) at_->wait_for(m);
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
  forget_version(*here);
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
  if (const mark done = at_->record(); read && !done.passed())
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
  const mark done = fill(*filled, values);
  if (!done.passed()) retired_.push_back({done, filled, {}});
  return mailgrad::snapshot(filled, done);
}

mark shard::fill(memory& to, const archived_array& values) {
  if (values.values.size() != range_.size())
    throw archive_error(
        fmt::format("{}: expected {} floats, found {}", values.path, range_.size(), values.values.size()));
  at_->write(values.values, to);
  return at_->record();
}

update_number shard::next_update() const noexcept {
  update_number next;
  next.of_weights = version_.value + 1;
  next.of_state = updates_ + 1;
  return next;
}

std::span<const float> shard::state(std::string_view name) const {
  for (const optimizer_state& s : optimizer_->state())
    if (s.name == name && s.values.size() == range_.size()) return s.values.first(dense_size_);
  return {};
}

void shard::save(hogwild_store& store) const {
  store.store(range_.begin, snapshot().on_host().first(range_.size()));
}

void shard::load(const hogwild_store& store, std::uint64_t updates) {
  const std::shared_ptr<memory> target = block_to_write();
  store.load(range_.begin, target->on_host<float>().first(range_.size()));
  current_ = target;
  version_.value += updates;
  forget_versions(); // the log has no entry of the rows that workers wrote to the store
}

void shard::save(card_block& block) {
  card_block::piece mine = block.of(index_);
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

void shard::load(const card_block& block, std::uint64_t updates) {
  let_go_of_retired();
  for (const mark& m : block.written()) at_->wait_for(m);
  const std::shared_ptr<memory> target = block_to_write();
  const stream& s = at_->where();
  room_for_mark_ = at_->record();
  copy_bytes(s, target->on<float>(s).data(), block.of(index_).values->on<float>(s).data(), target->bytes());
  room_for_mark_ = {};
  written_ = at_->record();
  if (target != current_) retired_.push_back({written_, current_, {}});
  current_ = target;
  version_.value += updates;
  forget_versions();
}

} // namespace mailgrad
