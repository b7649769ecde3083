#include <mailgrad/kernels/update.hpp>

#include <mailgrad/kernels/cuda/update.hpp>
#include <mailgrad/kernels/host/update.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/require_host.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

std::size_t states_of(const update_rule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::states; }, rule);
}

void require_states(const update_rule& rule, std::span<float* const> state) {
  if (state.size() != states_of(rule))
    throw shape_error(fmt::format("update: {} states for a rule of {}", state.size(), states_of(rule)));
}

} // namespace

void require_fitting(const row_update& work) {
  const std::size_t count = work.width == 0 ? work.rows.size() : work.values.size() / work.width;
  if (count != work.rows.size() || work.values.size() != count * work.width)
    throw shape_error(fmt::format("update_rows: {} values for {} rows of {}", work.values.size(),
                                  work.rows.size(), work.width));
  const std::size_t height = work.width == 0 ? 0 : work.weights.size() / work.width;
  for (const std::uint32_t row : work.rows)
    if (row >= height) throw shape_error(fmt::format("update_rows: row {} of a table of {}", row, height));
}

void update(const stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state) {
  if (work.weights.size() != work.updated.size())
    throw shape_error("update", shape{work.weights.size()}, shape{work.updated.size()});
  require_states(rule, state);
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::update(*gpu, rule, penalty, work, state);
  host::update(rule, penalty, work, state);
}

void update_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state) {
  require_host(s, "update_rows");
  require_states(rule, state);
  require_fitting(work);
  host::update_rows(rule, penalty, work, state);
}

} // namespace mailgrad
