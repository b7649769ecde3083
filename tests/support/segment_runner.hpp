#pragma once

#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/tensor/block.hpp>

#include <memory>
#include <span>
#include <vector>

namespace mailgrad::test {

/// Computes values of a placed graph segment by segment. Each segment has its own program and memory, as on
/// real devices.
class segment_runner {
public:
  segment_runner(const graph& g, const placement& places, const std::vector<value>& wanted)
      : wanted_(wanted.size()) {
    std::vector<wanted_value> list;
    for (const value& v : wanted) list.push_back({v});
    segments_ = cut_into_segments(g, places, list);
    for (const segment& s : segments_) {
      std::vector<value> fetches = s.exports;
      for (const std::size_t i : s.fetches) fetches.push_back(wanted[i]);
      programs_.push_back(std::make_unique<program>(g, fetches, s.imports));
    }
  }

  /// Sets the memory of an input or a variable.
  void bind(const value& source, const void* memory) {
    for (auto& p : programs_) p->bind(source, memory);
  }

  void run() {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      for (const value& v : segments_[i].imports) programs_[i]->bind(v, address_of(v));
      programs_[i]->run(host_stream{}, 0, [] {});
      for (std::size_t f = 0; f < segments_[i].fetches.size(); ++f)
        wanted_[segments_[i].fetches[f]] = programs_[i]->fetched(segments_[i].exports.size() + f);
    }
  }

  const std::vector<segment>& segments() const { return segments_; }
  std::vector<float> result(std::size_t index, std::size_t n) const {
    const auto* first = static_cast<const float*>(wanted_[index]);
    return {first, first + n};
  }

private:
  const void* address_of(const value& v) const {
    for (std::size_t i = 0; i < segments_.size(); ++i)
      for (std::size_t e = 0; e < segments_[i].exports.size(); ++e)
        if (segments_[i].exports[e] == v) return programs_[i]->fetched(e);
    return nullptr;
  }

  std::vector<segment> segments_;
  std::vector<std::unique_ptr<program>> programs_;
  std::vector<const void*> wanted_;
};

} // namespace mailgrad::test
