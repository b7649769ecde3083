#pragma once

#include <mailgrad/engine/shard/shard_port.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// Writes down what the core of a shard tells others.
class noted_port final : public shard_port {
public:
  struct answered {
    rank worker;
    shard_weights weights;
  };

  void answer(rank worker, shard_weights weights) override {
    answers.push_back({worker, std::move(weights)});
  }
  void refuse(rank worker, step_number step) override { refused.emplace_back(worker, step); }
  void note(const order_entry& entry) override { notes.push_back(entry); }
  void note_kept(std::uint64_t checkpoint) override { kept.push_back(checkpoint); }
  void tell_followers(const order_entry& entry) override { told.push_back(entry); }
  void count_gap(std::uint64_t versions, instant) override { gaps.push_back(versions); }
  void end_gaps() override { gaps.clear(); }

  std::vector<answered> answers;
  std::vector<std::pair<rank, step_number>> refused;
  std::vector<order_entry> notes, told;
  std::vector<std::uint64_t> kept, gaps;
};

} // namespace mailgrad::testing
