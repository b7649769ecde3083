#include <mailgrad/data/named_arrays.hpp>

#include <mailgrad/data/batch_input.hpp>
#include <mailgrad/data/finite.hpp>
#include <mailgrad/data/require_dataset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace mailgrad {

namespace {

std::string quoted(const std::string& name) { return fmt::format("input '{}'", name); }

void require_fitting(const named_array& input, const named_array& first) {
  const sample_array& a = input.values;
  require_dataset(!input.name.empty(), "an input has no name");
  require_dataset(input.name != batch_input::labels, "no input may be called 'labels', as what is learnt is");
  require_dataset(
      a.samples() == first.values.samples(),
      fmt::format("{} of shape {} has {} samples, where {} has {}; the first extent counts the samples",
                  quoted(input.name), to_string(a.dims()), a.samples(), quoted(first.name),
                  first.values.samples()));
  require_dataset(a.sample_dims().size() > 0, fmt::format("{} of shape {} has samples without a number",
                                                          quoted(input.name), to_string(a.dims())));
  if (a.type() == dtype::float32)
    require_finite(a.values(), a.sample_dims().size(), fmt::format("{}: number", quoted(input.name)));
}

} // namespace

named_arrays::named_arrays(sample_array features)
    : named_arrays(std::vector<named_array>{{std::string(batch_input::features), std::move(features)}}) {}

named_arrays::named_arrays(std::initializer_list<named_array> inputs)
    : named_arrays(std::vector<named_array>(inputs)) {}

named_arrays::named_arrays(std::vector<named_array> inputs) : inputs_(std::move(inputs)) {
  require_dataset(!inputs_.empty(), "there is no input; give one array at least");
  for (auto input = inputs_.begin(); input != inputs_.end(); ++input) {
    require_fitting(*input, inputs_.front());
    require_dataset(
        std::find_if(inputs_.begin(), input, [&](const auto& i) { return i.name == input->name; }) == input,
        fmt::format("two inputs are called '{}'", input->name));
  }
}

const sample_array* named_arrays::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(inputs_, name, &named_array::name);
  return found == inputs_.end() ? nullptr : &found->values;
}

std::size_t named_arrays::bytes() const noexcept {
  return std::transform_reduce(inputs_.begin(), inputs_.end(), std::size_t{0}, std::plus<>{},
                               [](const named_array& i) { return i.values.bytes().size(); });
}

named_arrays named_arrays::slice(std::size_t first, std::size_t count) const {
  named_arrays part = *this;
  for (named_array& input : part.inputs_) input.values = input.values.slice(first, count);
  return part;
}

} // namespace mailgrad
