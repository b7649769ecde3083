#include <mailgrad/engine/model/gradient.hpp>

#include <mailgrad/tensor/error.hpp>

#include <string>

namespace mailgrad {

std::vector<float> whole_dense(const gradient& g) {
  const std::span<const float> first = g.dense.as<float>();
  std::vector<float> whole(first.begin(), first.end());
  const shard_range all{0, whole.size()}; // it must outlive the loop, which may point to it
  for (const dense_addend& further : g.addends)
    for (const shard_range& r : ranges_of(further.covered, all)) {
      if (r.end > whole.size() || r.end > further.values.bytes() / sizeof(float))
        throw shape_error("gradient: an addend of " + std::to_string(further.values.bytes() / sizeof(float)) +
                          " weights covers " + std::to_string(r.end) + " of " + std::to_string(whole.size()));
      for (std::size_t i = r.begin; i < r.end; ++i) whole[i] += further.values.as<float>()[i];
    }
  return whole;
}

std::shared_ptr<gradient> make_gradient(const parameter_layout& layout) {
  auto made = std::make_shared<gradient>();
  made->dense = block(layout.dense_size() * sizeof(float));
  return made;
}

} // namespace mailgrad
