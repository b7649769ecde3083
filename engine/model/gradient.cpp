#include <mailgrad/engine/model/gradient.hpp>

#include <mailgrad/optim/clip.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace mailgrad {

gradient_rows listed_rows(const gradient_rows& part) {
  const auto end = std::ranges::find_if(part.rows, [](std::int32_t row) { return row < 0; });
  const auto count = static_cast<std::size_t>(end - part.rows.begin());
  return {part.variable, part.width, part.rows.first(count), part.values.first(count * part.width)};
}

std::vector<float> whole_dense(const gradient& g) {
  const std::span<const float> first = g.dense.on_host<float>();
  std::vector<float> whole(first.begin(), first.end());
  const shard_range all{0, whole.size()}; // it must outlive the loop, which may point to it
  for (const dense_addend& further : g.addends)
    for (const shard_range& r : ranges_of(further.covered, all)) {
      if (r.end > whole.size() || r.end > further.values.bytes() / sizeof(float))
        throw shape_error(fmt::format("gradient: an addend of {} weights covers {} of {}",
                                      further.values.bytes() / sizeof(float), r.end, whole.size()));
      for (std::size_t i = r.begin; i < r.end; ++i) whole[i] += further.values.as<float>()[i];
    }
  return whole;
}

double squared_norm(const gradient& g) {
  double squares = sum_of_squares(host_stream{}, g.dense.on_host<float>());
  for (const gradient_rows& part : g.sparse)
    squares += sum_of_squares(host_stream{}, listed_rows(part).values);
  return squares;
}

std::shared_ptr<gradient> make_gradient(const parameter_layout& layout, const block_source& blocks) {
  auto made = std::make_shared<gradient>();
  const std::size_t bytes = layout.dense_size() * sizeof(float);
  made->dense = memory(blocks ? blocks(bytes) : block(bytes));
  return made;
}

} // namespace mailgrad
