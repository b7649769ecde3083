#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

/// Floats updated at a time. A smaller tile loses fewer updates of others; a larger one runs faster.
constexpr std::size_t tile = 1024;

} // namespace

hogwild_writer::hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                               const optimizer_options& options)
    : store_(std::move(store)), at_(std::make_shared<host_queue>()),
      optimizer_(make_optimizer(options, layout.size())), dense_size_(layout.dense_size()), order_(at_) {
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    if (!variable.sparse) continue;
    const std::size_t width = variable.dims.size() / variable.dims[0];
    tables_.push_back({v, width, variable.offset, static_cast<std::int32_t>(variable.dims[0]),
                       std::vector<float>(variable.dims.size())});
  }
}

hogwild_writer::hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                               const optimizer_options& options, std::shared_ptr<gpu_block> block,
                               std::uint32_t worker, std::shared_ptr<device_queue> at)
    : store_(std::move(store)), block_(std::move(block)), worker_(worker), at_(std::move(at)),
      optimizer_(make_optimizer(options, layout.size(), *at_)), dense_size_(layout.dense_size()),
      order_(at_) {
  for (std::size_t s = 0; s < layout.shard_count(); ++s) ranges_.push_back(layout.shard(s));
  for (std::size_t v = 0; v < layout.variables().size(); ++v)
    std::ranges::copy(pieces_of_table(layout, v), std::back_inserter(pieces_));
}

/// On a GPU the queue also waits for shards that have just laid their weights into the block.
const float* hogwild_writer::begin_step() {
  version_read_ = store_->version();
  if (!block_) return store_->racing_view();
  for (std::uint32_t s = 0; s < ranges_.size(); ++s) at_->wait_for(block_->of(s).ready);
  reads_ = at_->record();
  return nullptr;
}

std::uint64_t hogwild_writer::write(std::shared_ptr<const gradient> g, float scale) {
  if (!block_) return write(*g, scale);
  // Each kernel reads and writes its part of the block in place, while kernels of other queues do so.
  const update_number step = next_update();
  while (!taken_.empty() && taken_.front().first.passed()) taken_.pop_front();
  at_->wait_for(g->ready);
  queue_dense(*g, scale, step);
  queue_rows(*g, scale, step);
  const device_event done = at_->record();
  block_->note_written(worker_, done);
  taken_.emplace_back(done, std::move(g));
  ++updates_;
  return store_->advance() - version_read_;
}

std::uint64_t hogwild_writer::write(const gradient& g, float scale) {
  const update_number step = next_update();
  write_dense(g, scale, step);
  for (table& t : tables_) {
    rows_.begin(t.variable);
    rows_.add(g, scale);
    write_rows(t, step);
  }
  ++updates_;
  return store_->advance() - version_read_;
}

void hogwild_writer::write_dense(const gradient& g, float scale, update_number step) {
  std::array<float, tile> values;
  const float* gradients = g.dense.on_host<float>().data();
  const shard_range all{0, dense_size_};
  for (const shard_range& range : ranges_of(g.covered, all)) {
    for (std::size_t first = range.begin; first < range.end; first += tile) {
      const std::span<float> window = std::span(values).first(std::min(tile, range.end - first));
      store_->load(first, window);
      const scaled_gradient part{gradients + first, scale};
      optimizer_->update(at_->where(), {window, window, {&part, 1}, step, first});
      store_->store(first, window);
    }
  }
}

void hogwild_writer::queue_dense(const gradient& g, float scale, update_number step) {
  const stream& s = at_->where();
  const float* const values = g.dense.on<float>(s).data();
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    const std::span<float> mine = block_->of(i).values->on<float>(s);
    for_each_part(ranges_of(g.covered, {0, dense_size_}), ranges_[i], [&](const shard_range& range) {
      const std::span<float> part = mine.subspan(range.begin - ranges_[i].begin, range.size());
      const scaled_gradient one{values + range.begin, scale};
      optimizer_->update(s, {part, part, {&one, 1}, step, range.begin});
    });
  }
}

void hogwild_writer::queue_rows(const gradient& g, float scale, update_number step) {
  const stream& s = at_->where();
  std::vector<row_gradient> named;
  for (const table_piece& p : pieces_) {
    named.clear();
    for (const gpu_rows& part : g.sparse_on_gpu)
      if (part.variable == p.variable) named.push_back({part.rows, part.values.data(), scale});
    if (named.empty()) continue;
    const std::span<float> weights = block_->of(p.shard).values->on<float>(s).subspan(p.in_shard, p.size());
    optimizer_->update_rows(s, {.weights = weights,
                                .width = p.width,
                                .step = step,
                                .first = p.in_model,
                                .row_begin = p.row_begin,
                                .row_end = p.row_end,
                                .gradients = named,
                                .scratch = order_.of(row_update_bytes(device_kind::cuda, named))});
  }
}

/// The rule works on a private copy of the rows it touches. Each change is then made in the block, coordinate
/// by coordinate, and the copy is set back. A row that is listed twice thus changes the block once.
void hogwild_writer::write_rows(table& t, update_number step) {
  const std::span<const std::int32_t> rows = rows_.rows();
  if (rows.empty()) return;
  before_.resize(rows.size() * t.width);
  for (std::size_t j = 0; j < rows.size(); ++j) {
    const std::size_t first = static_cast<std::size_t>(rows[j]) * t.width;
    const std::span old = std::span(before_).subspan(j * t.width, t.width);
    store_->load(t.offset + first, old);
    std::ranges::copy(old, t.copy.begin() + static_cast<std::ptrdiff_t>(first));
  }
  optimizer_->update_rows(at_->where(),
                          {t.copy, t.width, rows, rows_.values(), 1.0F, step, t.offset, 0, t.rows});
  for (std::size_t j = 0; j < rows.size(); ++j) {
    const std::size_t first = static_cast<std::size_t>(rows[j]) * t.width;
    for (std::size_t c = 0; c < t.width; ++c) {
      float& changed = t.copy[first + c];
      const float before = before_[j * t.width + c];
      store_->move(t.offset + first + c, before, changed);
      changed = before;
    }
  }
}

} // namespace mailgrad
