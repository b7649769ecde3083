#include <mailgrad/engine/worker/hogwild_writer.hpp>

#include <mailgrad/tensor/lane.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// Floats that are loaded, updated and stored at a time. A smaller tile loses fewer updates of other workers,
/// which fall between load and store; a larger tile runs faster.
constexpr std::size_t tile = 1024;

} // namespace

hogwild_writer::hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                               const optimizer_options& options)
    : store_(std::move(store)), optimizer_(make_optimizer(options, layout.size())),
      dense_size_(layout.dense_size()) {
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    if (!variable.sparse) continue;
    const std::size_t width = variable.dims.size() / variable.dims[0];
    tables_.push_back({v, width, variable.offset, static_cast<std::int32_t>(variable.dims[0]),
                       std::vector<float>(variable.dims.size())});
  }
}

const float* hogwild_writer::begin_step() noexcept {
  version_read_ = store_->version();
  return store_->racing_view();
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

void hogwild_writer::keep(archive& a) {
  a.version(1);
  a.field("updates", updates_);
  host_lane here;
  optimizer_->keep(a, here);
}

/// Counts only finished updates, so two updates that are made at once may have the same number.
update_number hogwild_writer::next_update() const noexcept {
  update_number next;
  next.of_weights = store_->updates() + 1;
  next.of_state = updates_ + 1;
  return next;
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
      optimizer_->update(where_, {window, window, {&part, 1}, step, first});
      store_->store(first, window);
    }
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
  optimizer_->update_rows(where_, {t.copy, t.width, rows, rows_.values(), 1.0F, step, t.offset, 0, t.rows});
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
