#include <mailgrad/data/formats/array_rows.hpp>

#include <mailgrad/data/finite.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace mailgrad {

namespace {

std::vector<std::size_t> without_ones(std::span<const std::size_t> extents) {
  std::vector<std::size_t> some;
  std::ranges::copy_if(extents, std::back_inserter(some), [](std::size_t n) { return n != 1; });
  return some;
}

/// Pictures whose channels come first have as many numbers as the model reads, but in another order.
bool holds(const shape& array, const shape& dims) {
  if (array.rank() == 0) return false;
  const std::span<const std::size_t> found(array.begin() + 1, array.end());
  if (found.size() == 1 && found[0] == dims.size()) return true;
  return without_ones(found) == without_ones({dims.begin(), dims.end()});
}

} // namespace

array_rows::array_rows(const std::filesystem::path& file, const shape& dims)
    : array_(file), numbers_(dims.size()) {
  const shape& found = array_.header().dims;
  if (!holds(found, dims))
    array_.fail(fmt::format("expected samples of {}, as the model reads them, along the first axis, found an "
                            "array of {}",
                            to_string(dims), to_string(found)));
}

bool array_rows::next(std::vector<float>& to) {
  if (array_.left() == 0) return false;
  const std::size_t before = to.size();
  to.resize(before + numbers_);
  const std::span<float> sample = std::span(to).subspan(before);
  array_.read(sample);
  if (const auto at = first_not_finite(sample))
    array_.fail(fmt::format("number {} of sample {} is {}; numbers must be finite", *at, done_, sample[*at]));
  ++done_;
  return true;
}

} // namespace mailgrad
