#include <mailgrad/actors/gradient.hpp>

namespace mailgrad {

std::shared_ptr<gradient> make_gradient(const parameter_layout& layout) {
  auto made = std::make_shared<gradient>();
  made->dense = block(layout.dense_size() * sizeof(float));
  return made;
}

} // namespace mailgrad
