#include <mailgrad/actors/hogwild_writer.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// Floats between a load and the store of the update made from it: the fewer, the fewer updates of others
/// fall into the gap and are lost; the more, the better the loop runs.
constexpr std::size_t tile = 1024;

} // namespace

hogwild_writer::hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                               const optimizer_options& options)
    : store_(std::move(store)), optimizer_(make_optimizer(options, layout.size())),
      dense_size_(layout.dense_size()) {
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    if (!variable.sparse) continue;
    tables_.push_back({v, variable.offset, static_cast<std::int32_t>(variable.dims[0]),
                       std::vector<float>(variable.dims.size())});
  }
}

const float* hogwild_writer::begin_step() noexcept {
  version_read_ = store_->version();
  return store_->racing_view();
}

std::uint64_t hogwild_writer::write(const gradient& g, float scale) {
  ++updates_;
  write_dense(g, scale);
  for (const gradient_rows& part : g.sparse) write_rows(part, scale);
  return store_->advance() - version_read_;
}

void hogwild_writer::write_dense(const gradient& g, float scale) {
  std::array<float, tile> values;
  const float* gradients = g.dense.as<float>().data();
  const shard_range all{0, dense_size_};
  for (const shard_range& range : ranges_of(g.covered, all)) {
    for (std::size_t first = range.begin; first < range.end; first += tile) {
      const std::span<float> window = std::span(values).first(std::min(tile, range.end - first));
      store_->load(first, window);
      const scaled_gradient part{gradients + first, scale};
      optimizer_->update(host_stream{}, {window, window, {&part, 1}, updates_, first});
      store_->store(first, window);
    }
  }
}

/// The rule works on a private copy of the rows it touches; what it changed is then added, coordinate by
/// coordinate. A row that is listed again finds its copy put back, and adds nothing a second time.
void hogwild_writer::write_rows(const gradient_rows& part, float scale) {
  const auto found = std::ranges::find(tables_, part.variable, &table::variable);
  table& t = *found;
  const auto end = std::ranges::find_if(part.rows, [](std::int32_t row) { return row < 0; });
  const std::span rows = part.rows.first(static_cast<std::size_t>(end - part.rows.begin()));
  before_.resize(rows.size() * part.width);
  for (std::size_t j = 0; j < rows.size(); ++j) {
    const std::size_t first = static_cast<std::size_t>(rows[j]) * part.width;
    const std::span old = std::span(before_).subspan(j * part.width, part.width);
    store_->load(t.offset + first, old);
    std::ranges::copy(old, t.copy.begin() + static_cast<std::ptrdiff_t>(first));
  }
  optimizer_->update_rows(host_stream{},
                          {t.copy, part.width, rows, part.values.first(rows.size() * part.width), scale,
                           updates_, t.offset, 0, t.rows});
  for (std::size_t j = 0; j < rows.size(); ++j) {
    const std::size_t first = static_cast<std::size_t>(rows[j]) * part.width;
    for (std::size_t c = 0; c < part.width; ++c) {
      float& changed = t.copy[first + c];
      store_->add(t.offset + first + c, changed - before_[j * part.width + c]);
      changed = before_[j * part.width + c];
    }
  }
}

} // namespace mailgrad
