#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/cures/elastic_averaging.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

namespace mailgrad {
namespace {

using testing::virtual_trainer;
using testing::virtual_training;

// That each cure helps where its paper says so: the same workers, learning rate, seeds and number of
// gradients, with it and without it. Everything here is determined by its seeds.

using float_vec = std::vector<float>;

constexpr std::size_t size_of_bowl = 30;

/// From 1 down to 0.02.
float curvature(std::size_t k, std::size_t n) {
  return std::pow(0.02F, static_cast<float>(k) / static_cast<float>(n - 1));
}

/// Of the sum of h_k x_k^2 / 2, with noise.
void bowl(std::span<const float> x, std::mt19937_64& random, std::span<float> g) {
  std::normal_distribution<float> noise(0, 0.05F);
  for (std::size_t k = 0; k < x.size(); ++k) g[k] = curvature(k, x.size()) * x[k] + noise(random);
}

double bowl_loss(std::span<const float> x) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    sum += static_cast<double>(curvature(k, x.size()) * x[k] * x[k]) / 2;
  return std::isfinite(sum) ? std::min(sum, 1e30) : 1e30;
}

template <class Loss>
double median_over_seeds(Loss loss_of) {
  std::vector<double> losses;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) losses.push_back(loss_of(seed));
  std::ranges::nth_element(losses, losses.begin() + 2);
  return losses[2];
}

double final_loss(virtual_training t, std::uint64_t updates,
                  const testing::gradient_function& gradient = bowl,
                  double (*loss)(std::span<const float>) = bowl_loss) {
  return median_over_seeds([&](std::uint64_t seed) {
    t.seed = seed;
    virtual_trainer trainer(t, float_vec(size_of_bowl, 1.0F), gradient);
    trainer.run(updates);
    return loss(trainer.weights());
  });
}

// Zhang et al., Jiang et al., Xie et al., Mishchenko et al.: a learning rate that asynchrony makes diverge.
TEST(CureConvergence, ScalingTheStepSavesALearningRateThatDiverges) {
  virtual_training t{.rate = 0.8, .workers = 16};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"inverse", "dynsgd", "polynomial:1", "hinge:1,0", "fedbuff"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 600), 0.1) << cure;
  }
}

// Koloskova et al., Mishchenko et al.: the same, where it is the rare old gradients that make it diverge.
TEST(CureConvergence, ShortStepsForGapsBeyondTheWorkersSaveALearningRate) {
  virtual_training t{.rate = 0.8, .workers = 8};
  EXPECT_GT(final_loss(t, 600), 1e3);
  for (const char* cure : {"mishchenko", "koloskova"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 600), 0.2) << cure;
  }
}

// Barkai et al.: momentum makes the gap large. Mitliagkas et al.: asynchrony brings momentum of its own, so
// less is to be asked for.
TEST(CureConvergence, GapAwareAndLessMomentumSaveManyWorkers) {
  virtual_training t{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(t, 1000);
  for (const char* cure : {"gap-aware", "momentum-compensation"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 1000), 0.1 * uncured) << cure;
  }
}

// Hakimi et al.: one momentum for all workers overshoots; one each, and a look ahead, does not.
TEST(CureConvergence, DanaKeepsMomentumWithManyWorkers) {
  const virtual_training shared{.optimizer = "momentum", .rate = 0.05, .workers = 16};
  const double uncured = final_loss(shared, 1000);
  for (const char* cure : {"dana-zero", "dana-slim", "dana-dc:0.9,0.1"})
    EXPECT_LT(final_loss({.cure = cure, .rate = 0.05, .workers = 16}, 1000), 0.1 * uncured) << cure;
}

/// Samples of a logistic regression: x of unit length with label y = +-1 by the sign of x_0 + x_1 + noise.
struct sample {
  float_vec x;
  float y;
};

sample draw(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  sample s{float_vec(size_of_bowl), 0};
  for (float& value : s.x) value = normal(random) / 2;
  s.y = s.x[0] + s.x[1] + normal(random) / 2 > 0 ? 1.0F : -1.0F;
  return s;
}

double margin(const sample& s, std::span<const float> w) {
  double sum = 0;
  for (std::size_t k = 0; k < w.size(); ++k) sum += static_cast<double>(s.x[k] * w[k]);
  return static_cast<double>(s.y) * sum;
}

void logistic(std::span<const float> w, std::mt19937_64& random, std::span<float> g) {
  constexpr int batch = 8;
  std::ranges::fill(g, 0.0F);
  for (int i = 0; i < batch; ++i) {
    const sample s = draw(random);
    const auto pull = static_cast<float>(1 / (1 + std::exp(margin(s, w)))) / batch;
    for (std::size_t k = 0; k < g.size(); ++k) g[k] -= pull * s.y * s.x[k];
  }
}

double logistic_loss(std::span<const float> w) {
  std::mt19937_64 random(99);
  double sum = 0;
  for (int i = 0; i < 500; ++i) sum += std::log1p(std::exp(-margin(draw(random), w)));
  return sum / 500;
}

// Zheng et al.: g^2 stands for the curvature where the loss is a likelihood.
TEST(CureConvergence, DelayCompensationHelpsOnALikelihood) {
  virtual_training t{.rate = 2, .workers = 32};
  const double uncured = final_loss(t, 400, logistic, logistic_loss);
  for (const char* cure : {"dc-asgd:2", "dc-asgd-a:0.5"}) {
    t.cure = cure;
    EXPECT_LT(final_loss(t, 400, logistic, logistic_loss), 0.9 * uncured) << cure;
  }
}

// Workers that take steps of their own and send what they have moved: that what tames their sum helps where
// its paper says so. The same seeds, learning rates and numbers of exchanges with it and without it.

constexpr std::size_t size_of_shard = 20;
constexpr std::uint32_t averaging_workers = 8;

struct local_run {
  std::string cure = "none";
  std::string outer = "sgd";
  double outer_rate = 1;
  std::size_t buffer = 1; ///< differences in an update, their mean: k-batch-async
  std::uint64_t steps = 8;
};

/// SGD on the bowl.
void train(float_vec& x, std::uint64_t steps, std::mt19937_64& random) {
  std::normal_distribution<float> noise(0, 0.2F);
  for (std::uint64_t i = 0; i < steps; ++i)
    for (std::size_t k = 0; k < size_of_shard; ++k)
      x[k] -= 0.2F * (curvature(k, size_of_shard) * x[k] + noise(random));
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
    return bowl_loss(shard_);
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
  return median_over_seeds([&](std::uint64_t seed) { return local_workers(r, seed).loss_after(400); });
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
  local_run r{.outer = "nesterov:momentum=0.9", .outer_rate = 0.1};
  EXPECT_GT(median_loss(r), 1e3);
  r.cure = "mla";
  EXPECT_LT(median_loss(r), 0.2);
}

// Shah & Sun: old differences count less among the others in the moments of an outer Adam.
TEST(LocalConvergence, TheCosineGateCalmsAnOuterAdam) {
  const local_run r{.outer = "adam", .outer_rate = 0.1};
  EXPECT_LT(median_loss({.cure = "cgad", .outer = "adam", .outer_rate = 0.1}), 0.5 * median_loss(r));
}

} // namespace
} // namespace mailgrad
