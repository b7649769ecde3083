#include <mailgrad/kernels/update.hpp>

#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/cuda/update.hpp>
#include <mailgrad/kernels/cuda/update_rows.hpp>
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

std::size_t row_update_bytes(device_kind where, std::span<const row_gradient> gradients) noexcept {
  std::size_t bytes = 0;
  for (const row_gradient& g : gradients)
    if (where == device_kind::cuda) bytes += cuda::row_order_bytes(g.rows.size());
  return bytes;
}

void update_summed_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state) {
  const auto* gpu = std::get_if<cuda_stream>(&s);
  if (!gpu)
    throw device_error(world_errc::no_such_device,
                       "update_summed_rows: the host takes rows that are summed before");
  require_states(rule, state);
  const auto height = static_cast<std::size_t>(std::int64_t{work.row_end} - work.row_begin);
  if (work.row_begin < 0 || work.row_end < work.row_begin || work.weights.size() != height * work.width)
    throw shape_error(fmt::format("update_summed_rows: {} weights for rows {} to {} of {}",
                                  work.weights.size(), work.row_begin, work.row_end, work.width));
  cuda::update_summed_rows(*gpu, rule, penalty, work, state);
}

} // namespace mailgrad
