#include <mailgrad/lab/experiments/all.hpp>
#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <mailgrad/actors/training.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

// The one experiment with real threads, since its question is about them: what workers lose that write to one
// block of weights without locks. Samples have ten of 20,000 features, so that two writers rarely meet.

namespace mailgrad::lab {

namespace {

constexpr std::size_t width = 20'000, entries = 10;

/// Rows of ones in columns of chance, whose class is the sign of the sum of hidden weights of their columns.
dataset sparse_rows_of(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 hidden_random(7), random(seed);
  std::vector<int> hidden(width);
  for (int& h : hidden) h = hidden_random() % 2 == 0 ? 1 : -1;
  sparse_features rows{width, {0}, {}, {}};
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    int sum = 0;
    // one column of each tenth, so that they ascend
    for (std::size_t k = 0; k < entries; ++k) {
      const std::size_t column = k * (width / entries) + random() % (width / entries);
      rows.columns.push_back(static_cast<std::int32_t>(column));
      rows.values.push_back(1);
      sum += hidden[column];
    }
    rows.offsets.push_back(rows.columns.size());
    labels.push_back(sum > 0 ? 1 : 0);
  }
  return {std::move(rows), std::move(labels), 2};
}

struct outcome {
  double accuracy = 0;
  double lost = 0; ///< gradients that were computed and not written
};

outcome train_once(const std::shared_ptr<const data_split>& data, const char* policy, std::uint32_t workers,
                   std::uint64_t epochs, std::uint64_t seed, const experiment_options& options) {
  if (options.stop && options.stop()) throw experiment_stopped();
  training_options o;
  o.devices.clear(); // workers of one device would take turns
  for (std::uint32_t w = 0; w < workers; ++w) o.devices.push_back({device_kind::cpu, w});
  o.policy = policy;
  o.optimizer.learning_rate = 0.5;
  o.batch = 4;
  o.epochs = epochs;
  o.seed = seed;
  const training_report r = train(find_model("softmax"), data, o);
  return {r.test_accuracy.value_or(claim::unknown),
          static_cast<double>(r.ledger.produced) - static_cast<double>(r.updates)};
}

struct way {
  const char* name;
  const char* policy;
  std::uint32_t workers;
};

constexpr way ways[] = {
    {"one worker", "hogwild", 1}, {"two workers, hogwild", "hogwild", 2}, {"two workers, sync", "sync", 2}};

} // namespace

void run_hogwild(const experiment_options& options, experiment_result& result) {
  if (options.stop && options.stop()) throw experiment_stopped();
  const std::size_t samples = options.quick ? 20'000 : 40'000;
  const auto data = std::make_shared<const data_split>(
      data_split{sparse_rows_of(samples, 1), sparse_rows_of(10'000, 2), "sparse rows", {}});
  const std::vector<std::uint64_t> epochs =
      options.quick ? std::vector<std::uint64_t>{1, 4} : std::vector<std::uint64_t>{1, 2, 4, 8, 16};
  figure f{"accuracy",
           "What workers lose that write without locks",
           fmt::format(
               "Accuracy on the test set of one dense layer, with {} samples of ten among 20,000 features. "
               "Two threads of this machine write to one block of weights.",
               samples),
           {"epochs", axis_scale::doubling},
           {"test accuracy"},
           {}};
  std::vector<seeds_mean> last;
  double lost = 0;
  for (const way& w : ways) {
    figure_series s{w.name};
    for (const std::uint64_t e : epochs) {
      std::vector<double> all;
      for (std::uint64_t seed = 0; seed < (options.quick ? 2U : 5U); ++seed) {
        const outcome made = train_once(data, w.policy, w.workers, e, options.seed + seed, options);
        all.push_back(made.accuracy);
        if (std::string_view(w.policy) == "hogwild") lost += made.lost;
      }
      const seeds_mean m = mean_over_seeds(all);
      s.points.push_back({static_cast<double>(e), m.mean, m.spread});
      if (e == epochs.back()) last.push_back(m);
    }
    f.series.push_back(std::move(s));
  }
  result.claims.push_back({fmt::format("accuracy of two workers after {} epochs", epochs.back()), "",
                           "that of one worker", last[0].mean, last[1].mean, last[1].spread, 0.01});
  result.claims.push_back(
      {"gradients that were computed and not written", "", "by counting", 0, lost, claim::unknown, 0});
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
