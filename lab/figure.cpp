#include <mailgrad/lab/figure.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace mailgrad::lab {

namespace {

constexpr double gap = std::numeric_limits<double>::quiet_NaN(); ///< where a line breaks off

/// What a series shows, in the order in which they are listed.
enum shown : std::size_t { computing, discarded, at_barrier, under_bound, for_batch, on_the_way };

std::optional<shown> shown_as(trace_kind what) {
  switch (what) {
  case trace_kind::compute:
  case trace_kind::compare:
    return computing;
  case trace_kind::barrier:
  case trace_kind::policy_switch:
    return at_barrier;
  case trace_kind::bound:
    return under_bound;
  case trace_kind::batch:
    return for_batch;
  case trace_kind::wire:
    return on_the_way;
  default:
    return {};
  }
}

/// The row of a worker, counted from the top. A track of one is named "worker 3 on cpu:0".
std::optional<double> row_of(std::string_view track, std::uint32_t workers) {
  for (std::uint32_t r = 0; r < workers; ++r)
    if (track.starts_with(fmt::format("worker {} ", r))) return workers - r;
  return {};
}

} // namespace

figure timeline_figure(const run_trace& trace, std::uint32_t workers, double until_seconds, std::string name,
                       std::string title) {
  figure f{
      std::move(name),
      std::move(title),
      fmt::format("What {} workers did in the first {:g} seconds: a bar is the computation of a gradient, "
                  "a line is a wait, and a mark is a gradient that was discarded when it came.",
                  workers, until_seconds),
      {"time [s]"},
      {"worker"},
      {{"computes", series_look::bars},
       {"discarded", series_look::points},
       {"waits at a barrier", series_look::line},
       {"waits under a bound", series_look::line},
       {"waits for a batch", series_look::line},
       {"gradient and weights under way", series_look::line},
       {"discarded", series_look::points}}};
  for (std::uint32_t r = workers; r > 0; --r) f.y.marks.push_back(std::to_string(r - 1));
  const auto since = [&](instant t) { return std::min(in_seconds(t - trace.started), until_seconds); };
  for (const auto& track : trace.tracks) {
    const std::optional<double> row = row_of(track->name(), workers);
    for (const trace_event& e : track->events()) {
      if (in_seconds(e.begin - trace.started) >= until_seconds) continue;
      if (e.what == trace_kind::discard)
        f.series[discarded].points.push_back({since(e.begin), static_cast<double>(workers - e.peer)});
      const std::optional<shown> kind = row ? shown_as(e.what) : std::nullopt;
      if (!kind || e.end <= e.begin) continue;
      auto& points = f.series[*kind].points;
      points.insert(points.end(), {{since(e.begin), *row}, {since(e.end), *row}, {0, gap}});
    }
  }
  return f;
}

} // namespace mailgrad::lab
