#pragma once

#include <mailgrad/kernels/functors/weight_functions.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <vector>

// One shard, a cure, an optimiser and asynchronous workers on a virtual clock. They compute what the actors
// would compute, without any actor.

namespace mailgrad::testing {

using gradient_function =
    std::function<void(std::span<const float> weights, std::mt19937_64& noise, std::span<float> gradient)>;

struct virtual_training {
  std::string cure = "none";
  std::string optimizer = "sgd";
  double rate = 0.1;
  std::uint32_t workers = 8;
  bool round_robin = false; ///< if false, each gradient takes an exponentially distributed time
  std::uint64_t seed = 1;
  std::size_t buffer = 1; ///< gradients in an update, their mean
};

class virtual_trainer {
public:
  virtual_trainer(const virtual_training& t, std::vector<float> start, gradient_function gradient)
      : weights_(std::move(start)), gradient_(std::move(gradient)), random_(t.seed),
        round_robin_(t.round_robin), buffer_(t.buffer), values_(weights_.size()),
        workers_(t.workers, {weights_, weights_}) {
    optimizer_options options = parse_optimizer(t.optimizer);
    options.learning_rate = t.rate;
    options = cure_spec(t.cure, t.workers).adapted(options);
    optimizer_ = make_optimizer(options, weights_.size());
    cure_ = make_cure(
        t.cure, {t.workers, weights_.size(), t.rate, std::make_shared<host_queue>(), std::move(options)});
    for (std::uint32_t r = 0; r < t.workers; ++r) start_worker(r);
  }

  /// Takes that many gradients. Under a cure that pulls, a worker moves its own weights by each and sends
  /// where that has led it.
  void run(std::uint64_t gradients) {
    while (gradients-- > 0) {
      const std::uint32_t r = events_.top().worker;
      now_ = events_.top().at;
      events_.pop();
      worker& w = workers_[r];
      gradient_(w.own, random_, values_);
      if (const auto pull = cure_ ? cure_->pull() : std::nullopt) {
        for (std::size_t k = 0; k < values_.size(); ++k) {
          w.own[k] -= values_[k];
          values_[k] = w.read[k] - w.own[k];
          elastic_pull{*pull}(weights_[k], w.own[k]);
        }
      }
      apply(r);
      start_worker(r);
    }
  }

  const std::vector<float>& weights() const { return weights_; }
  /// The weights that worker `rank` was last sent.
  const std::vector<float>& sent(std::uint32_t rank) const { return workers_[rank].read; }

private:
  struct worker {
    std::vector<float> read, own;
    std::uint64_t version_read = 0;
  };
  struct event {
    double at;
    std::uint64_t number;
    std::uint32_t worker;
    bool operator<(const event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  void start_worker(std::uint32_t r) {
    workers_[r].read = weights_;
    if (cure_ && cure_->predicts())
      cure_->predict({weights_, optimizer_->learning_rate(version_ + 1), velocity()}, workers_[r].read);
    if (!cure_ || !cure_->pull()) workers_[r].own = workers_[r].read;
    workers_[r].version_read = version_;
    const double span = round_robin_ ? 1 : std::exponential_distribution<double>()(random_);
    events_.push({now_ + span, number_++, r});
  }

  /// The optimiser's; empty if it has none.
  std::span<const float> velocity() {
    for (const optimizer_state& s : optimizer_->state())
      if (s.name == "velocity") return s.values;
    return {};
  }

  void apply(std::uint32_t r) {
    const std::uint64_t gap = version_ - workers_[r].version_read;
    std::vector<float>& applied = batch_.emplace_back(values_);
    if (cure_ && cure_->compensates())
      cure_->compensate({{r}, gap, values_, 1, weights_, workers_[r].read, velocity()}, applied);
    factors_.push_back(cure_ ? cure_->factor(gap) : 1);
    if (batch_.size() < buffer_) return;
    std::vector<scaled_gradient> parts;
    for (std::size_t i = 0; i < buffer_; ++i)
      parts.push_back({batch_[i].data(),
                       buffer_ == 1 ? 1 : static_cast<float>(factors_[i] / static_cast<double>(buffer_))});
    optimizer_->update(host_stream{},
                       {weights_, weights_, parts, ++version_, 0, buffer_ == 1 ? factors_[0] : 1});
    batch_.clear();
    factors_.clear();
  }

  std::vector<float> weights_;
  gradient_function gradient_;
  std::mt19937_64 random_;
  bool round_robin_;
  std::size_t buffer_;
  std::unique_ptr<mailgrad::cure> cure_;
  std::unique_ptr<mailgrad::optimizer> optimizer_;
  std::vector<float> values_;
  std::vector<std::vector<float>> batch_; ///< as they are applied
  std::vector<double> factors_;           ///< of those
  std::vector<worker> workers_;
  std::priority_queue<event> events_;
  double now_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t version_ = 0;
};

} // namespace mailgrad::testing
