#include <mailgrad/data/hold_out.hpp>

#include <mailgrad/data/row_split.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

void hold_out_last(data_split& data, double share) {
  const std::size_t all = data.train.size();
  const auto wanted = static_cast<std::size_t>(std::llround(static_cast<double>(all) * share));
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, all - 1);
  data.validation = data.train.slice(all - count, count);
  data.train = data.train.slice(0, all - count);
}

void hold_out_drawn(data_split& data, double share, std::uint64_t seed) {
  const row_split rows = draw_split(data.train.size(), data.train.labels(), share, seed);
  data.validation = take_rows(data.train, rows.test);
  data.train = take_rows(data.train, rows.train);
}

} // namespace

void hold_out(data_split& data, double share, std::uint64_t seed, held_out which) {
  if (!(share > 0 && share < 1))
    throw std::invalid_argument(fmt::format("validation: a share of {} lies not between 0 and 1", share));
  if (data.train.size() < 2)
    throw std::invalid_argument(
        fmt::format("validation: {} samples to train on cannot be split", data.train.size()));
  if (data.validation.size() > 0)
    throw std::invalid_argument(
        fmt::format("validation: {} samples are held out already", data.validation.size()));
  if (which == held_out::last || data.train.is_tokens())
    hold_out_last(data, share);
  else
    hold_out_drawn(data, share, seed);
}

} // namespace mailgrad
