#pragma once

#include "gpu_model.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad::bench {

/// Where the time of one step goes: events of the GPU between its operations, medians of several steps.
class measured_operations {
public:
  measured_operations(cuda::gpu_queue& queue, gpu_model& model) : queue_(queue), model_(model) {}

  void measure_step() {
    mark();
    model_.queue_step([this](std::string_view what) {
      names_.resize(std::max(names_.size(), used_));
      names_[used_ - 1] = kind_of(what);
      mark();
    });
    mark(); // behind the update
    queue_.finish();
    names_.resize(used_ - 1);
    names_.back() = "update of all weights";
    took_.resize(names_.size());
    for (std::size_t i = 0; i + 1 < used_; ++i)
      took_[i].push_back(1e3 * cuda::runtime::milliseconds_between(events_[i].get(), events_[i + 1].get()));
    used_ = 0;
  }

  void print(std::string_view of) const {
    std::map<std::string, std::pair<int, double>> kinds;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      auto& [count, us] = kinds[names_[i]];
      ++count;
      us += median(took_[i]);
    }
    std::vector<std::pair<std::string, std::pair<int, double>>> rows(kinds.begin(), kinds.end());
    std::ranges::sort(rows, std::greater{}, [](const auto& row) { return row.second.second; });
    for (const auto& [name, row] : rows)
      std::printf("%s: %s\t%d a step, %.0f us\n", std::string(of).c_str(), name.c_str(), row.first,
                  row.second);
    std::fflush(stdout);
  }

private:
  /// "models.cpp:12: gather" without the place.
  static std::string kind_of(std::string_view words) {
    const std::size_t colon = words.find(": ");
    return std::string(colon == std::string_view::npos ? words : words.substr(colon + 2));
  }
  void mark() {
    const auto& s = std::get<cuda_stream>(queue_.where());
    if (used_ == events_.size()) events_.emplace_back(s.device, cuda::runtime::event_kind::timed);
    cuda::runtime::record(events_[used_++].get(), s.stream);
  }

  cuda::gpu_queue& queue_;
  gpu_model& model_;
  std::deque<cuda::owned_event> events_; ///< which cannot be moved
  std::size_t used_ = 0;
  std::vector<std::string> names_;        ///< of what lies between two events
  std::vector<std::vector<double>> took_; ///< microseconds, of each step
};

} // namespace mailgrad::bench
