#pragma once

#include <mailgrad/net/all_reduce.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// The sums of workers of one process. A round ends when every worker has given its numbers or has left; they
/// are added in the order of workers.
///
/// Threads any.
class played_sums {
public:
  explicit played_sums(std::size_t workers) : self_(std::make_shared<state>()) {
    self_->left.resize(workers);
    self_->parts.resize(workers);
  }

  std::shared_ptr<all_reduce> join(std::size_t worker) { return std::make_shared<one>(self_, worker); }
  std::size_t rounds() const {
    const std::lock_guard guard(self_->mutex);
    return self_->rounds;
  }

private:
  struct part {
    std::span<float> values;
    std::shared_ptr<const void> keeps;
    all_reduce::on_sum done;
  };
  struct state {
    void end_round_if_complete() {
      all_reduce::givers who;
      std::vector<float> whole;
      for (std::size_t w = 0; w < parts.size(); ++w) {
        who.push_back(parts[w].has_value());
        if (!parts[w] && !left[w]) return;
        if (!parts[w]) continue;
        whole.resize(parts[w]->values.size());
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += parts[w]->values[i];
      }
      if (whole.empty()) return;
      ++rounds;
      for (auto& p : parts)
        if (p) std::ranges::copy(whole, p->values.begin());
      for (auto& p : std::exchange(parts, std::vector<std::optional<part>>(who.size())))
        if (p) p->done(who);
    }

    std::mutex mutex;
    std::vector<bool> left;
    std::vector<std::optional<part>> parts; ///< of the round under way
    std::size_t rounds = 0;
  };

  class one final : public all_reduce {
  public:
    one(std::shared_ptr<state> of, std::size_t worker) : of_(std::move(of)), worker_(worker) {}
    ~one() override {
      const std::lock_guard guard(of_->mutex);
      of_->left[worker_] = true;
      of_->end_round_if_complete();
    }
    one(const one&) = delete;
    one& operator=(const one&) = delete;

    void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum done) override {
      const std::lock_guard guard(of_->mutex);
      of_->parts[worker_] = part{values, std::move(keeps), std::move(done)};
      of_->end_round_if_complete();
    }

  private:
    std::shared_ptr<state> of_;
    std::size_t worker_;
  };

  std::shared_ptr<state> self_;
};

} // namespace mailgrad::net
