#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/cures/elastic_averaging.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <string>
#include <vector>

// Workers that take steps of their own and send what they have moved: that what tames their sum helps where
// its paper says so. The same seeds, learning rates and numbers of exchanges with it and without it.

namespace mailgrad {
namespace {

using float_vec = std::vector<float>;

constexpr std::size_t size_of_shard = 20;
constexpr std::uint32_t averaging_workers = 8;

struct local_run {
  std::string cure = "none";
  std::string outer = "sgd";
  double outer_rate = 1;
  std::size_t buffer = 1; ///< differences in an update, their mean: k-batch-async
  std::uint64_t steps = 8;
};

float curvature_of_shard(std::size_t k) {
  return std::pow(0.02F, static_cast<float>(k) / (size_of_shard - 1));
}

/// SGD on the sum of h_k x_k^2 / 2 with noise.
void train(float_vec& x, std::uint64_t steps, std::mt19937_64& random) {
  std::normal_distribution<float> noise(0, 0.2F);
  for (std::uint64_t i = 0; i < steps; ++i)
    for (std::size_t k = 0; k < size_of_shard; ++k)
      x[k] -= 0.2F * (curvature_of_shard(k) * x[k] + noise(random));
}

double loss(const float_vec& x) {
  double sum = 0;
  for (std::size_t k = 0; k < size_of_shard; ++k)
    sum += static_cast<double>(curvature_of_shard(k) * x[k] * x[k]) / 2;
  return std::isfinite(sum) ? std::min(sum, 1e30) : 1e30;
}

/// Asynchronous exchanges after an exponential time each.
class local_workers {
public:
  local_workers(local_run r, std::uint64_t seed)
      : run_(std::move(r)), random_(seed), shard_(size_of_shard, 1.0F), own_(averaging_workers, shard_),
        read_(averaging_workers, shard_), versions_(averaging_workers) {
    optimizer_options options = parse_optimizer(run_.outer);
    options.learning_rate = run_.outer_rate;
    outer_ = make_optimizer(options, size_of_shard);
    cure_site site{averaging_workers, size_of_shard, run_.outer_rate};
    site.optimizer = options;
    cure_ = make_cure(run_.cure, site);
  }

  double loss_after(int exchanges) {
    std::priority_queue<std::pair<double, std::size_t>> next; // of minus the time
    std::exponential_distribution<double> time;
    for (std::size_t w = 0; w < averaging_workers; ++w) next.emplace(-time(random_), w);
    for (int i = 0; i < exchanges; ++i) {
      const auto [now, w] = next.top();
      next.pop();
      exchange(w);
      next.emplace(now - time(random_), w);
    }
    return loss(shard_);
  }

private:
  void exchange(std::size_t w) {
    train(own_[w], run_.steps, random_);
    float_vec moved(size_of_shard);
    for (std::size_t k = 0; k < size_of_shard; ++k) moved[k] = read_[w][k] - own_[w][k];
    float_vec applied = moved;
    const float_vec met = shard_;
    if (cure_ && cure_->compensates())
      cure_->compensate(
          {{static_cast<std::uint32_t>(w)}, version_ - versions_[w], moved, 1, shard_, read_[w], {}},
          applied);
    buffer_.push_back(applied);
    factors_.push_back(cure_ ? cure_->factor(version_ - versions_[w]) : 1);
    if (buffer_.size() == run_.buffer) update();
    if (cure_ && cure_->pull())
      for (std::size_t k = 0; k < size_of_shard; ++k) elastic_pull{*cure_->pull()}(met[k], own_[w][k]);
    else
      own_[w] = sent();
    read_[w] = cure_ && cure_->pull() ? shard_ : own_[w];
    versions_[w] = version_;
  }

  /// What a worker gets that begins anew.
  float_vec sent() {
    float_vec weights = shard_;
    if (!cure_ || !cure_->predicts()) return weights;
    std::span<const float> velocity;
    for (const optimizer_state& s : outer_->state())
      if (s.name == "velocity") velocity = s.values;
    cure_->predict({shard_, run_.outer_rate, velocity}, weights);
    return weights;
  }

  void update() {
    std::vector<scaled_gradient> parts;
    for (std::size_t i = 0; i < buffer_.size(); ++i)
      parts.push_back(
          {buffer_[i].data(), static_cast<float>(factors_[i]) / static_cast<float>(buffer_.size())});
    outer_->update(host_stream{}, {shard_, shard_, parts, ++version_});
    buffer_.clear();
    factors_.clear();
  }

  local_run run_;
  std::mt19937_64 random_;
  float_vec shard_;
  std::vector<float_vec> own_, read_; ///< by worker
  std::vector<std::uint64_t> versions_;
  std::unique_ptr<cure> cure_;
  std::unique_ptr<optimizer> outer_;
  std::vector<float_vec> buffer_;
  std::vector<double> factors_;
  std::uint64_t version_ = 0;
};

double median_loss(const local_run& r) {
  float_vec losses;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    losses.push_back(static_cast<float>(local_workers(r, seed).loss_after(400)));
  std::ranges::nth_element(losses, losses.begin() + 2);
  return static_cast<double>(losses[2]);
}

// Zhang, Choromanska & LeCun: with many steps between exchanges the sum of all differences goes too far, and
// workers drawn to a centre do not.
TEST(LocalConvergence, ElasticAveragingBearsManyStepsBetweenExchanges) {
  const double summed = median_loss({.steps = 16});
  EXPECT_LT(median_loss({.cure = "easgd", .steps = 16}), 0.5 * summed);
}

// Liu et al.: Nesterov's momentum of each difference is too much where they come one by one; moved once a
// round it is not.
TEST(LocalConvergence, DelayedNesterovKeepsMomentumAsynchronously) {
  const double eager = median_loss({.outer = "nesterov:momentum=0.9", .outer_rate = 0.3});
  const double delayed = median_loss({.outer = "delayed-nesterov:momentum=0.9,period=8", .outer_rate = 0.3});
  EXPECT_LT(delayed, 0.5 * eager);
}

// Nguyen et al.: a buffer and a weight for staleness against each difference as it comes.
TEST(LocalConvergence, ABufferOfWeightedDifferencesIsCalmer) {
  const double one_by_one = median_loss({});
  EXPECT_LT(median_loss({.cure = "fedbuff", .buffer = 4}), 0.5 * one_by_one);
}

// Ajanthan et al.: an outer momentum carries the weights on while differences are computed from where they
// were. Workers that begin where it leads bear a rate at which it diverges.
TEST(LocalConvergence, MomentumLookAheadKeepsAnOuterMomentum) {
  const local_run r{.outer = "nesterov:momentum=0.9", .outer_rate = 0.1};
  local_run cured = r;
  cured.cure = "mla";
  EXPECT_GT(median_loss(r), 1e3);
  EXPECT_LT(median_loss(cured), 0.2);
}

// Shah & Sun: old differences count less among the others in the moments of an outer Adam.
TEST(LocalConvergence, TheCosineGateCalmsAnOuterAdam) {
  const local_run r{.outer = "adam", .outer_rate = 0.1};
  local_run cured = r;
  cured.cure = "cgad";
  EXPECT_LT(median_loss(cured), 0.5 * median_loss(r));
}

} // namespace
} // namespace mailgrad
