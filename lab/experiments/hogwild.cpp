#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <mailgrad/actors/training.hpp>

#include <fmt/format.h>

#include <iterator>
#include <random>

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

/// What is trained on, and how.
struct hogwild_setting {
  std::shared_ptr<const data_split> data;
  double rate = 0.5;
  std::size_t batch = 4;
  std::vector<std::uint64_t> epochs{}; ///< of the runs
  std::string samples{};               ///< in words
};

hogwild_setting drawn_samples(const experiment_options& options) {
  const std::size_t samples = options.quick ? 20'000 : 40'000;
  hogwild_setting s{std::make_shared<const data_split>(
      data_split{sparse_rows_of(samples, 1), sparse_rows_of(10'000, 2), "sparse rows", {}})};
  s.epochs = options.quick ? std::vector<std::uint64_t>{1, 4} : std::vector<std::uint64_t>{1, 2, 4, 8, 16};
  s.samples = fmt::format("{} samples of ten among 20,000 features", samples);
  return s;
}

/// Errors  std::invalid_argument for data that have no classes.
hogwild_setting given_samples(const experiment_options& options) {
  if (options.data->train.labelled_with() != label_kind::classes)
    throw std::invalid_argument(fmt::format(
        "--data: '{}' has no classes, and this experiment compares accuracies", options.data->name));
  hogwild_setting s{options.data, 0.05, 4};
  s.epochs = options.quick ? std::vector<std::uint64_t>{1, 3} : std::vector<std::uint64_t>{1, 2, 3, 4, 6, 8};
  s.samples = fmt::format("{} samples of {}", options.data->train.size(), options.data->name);
  return s;
}

struct outcome {
  double accuracy = 0;
  double lost = 0;  ///< gradients that were computed and not written
  double speed = 0; ///< samples a second
};

struct way_to_write {
  const char *name, *policy;
  std::uint32_t workers;
};

constexpr way_to_write ways_to_write[] = {
    {"one worker", "hogwild", 1}, {"two workers, hogwild", "hogwild", 2}, {"two workers, sync", "sync", 2}};

outcome train_once(const hogwild_setting& on, const way_to_write& by, std::uint64_t epochs,
                   std::uint64_t seed, const experiment_options& options) {
  if (options.stop && options.stop()) throw experiment_stopped();
  training_options o;
  o.devices.clear(); // workers of one device would take turns
  for (std::uint32_t w = 0; w < by.workers; ++w) o.devices.push_back({device_kind::cpu, w});
  o.policy = by.policy;
  o.optimizer.learning_rate = on.rate;
  o.batch = on.batch;
  o.epochs = epochs;
  o.seed = seed;
  const training_report r = train(find_model("softmax"), on.data, o);
  return {r.test_accuracy.value_or(claim::unknown),
          static_cast<double>(r.ledger.produced) - static_cast<double>(r.updates),
          static_cast<double>(r.samples) / r.wall_seconds};
}

/// What the runs of one way have made, over all seeds.
struct runs_of_way {
  figure_series accuracy, speed;
  seeds_mean last_accuracy{}, last_speed{}; ///< of the most epochs
  double lost = 0;
};

runs_of_way run_way(const way_to_write& by, std::size_t place, const hogwild_setting& on,
                    const experiment_options& options) {
  runs_of_way made{{by.name, series_look::joined}, {by.name}};
  for (const std::uint64_t epochs : on.epochs) {
    const auto runs = over_seeds(options, options.quick ? 2 : 5, [&](std::uint64_t seed) {
      return train_once(on, by, epochs, seed, options);
    });
    for (const outcome& one : runs) made.lost += one.lost;
    made.last_accuracy = mean_of(runs, std::mem_fn(&outcome::accuracy));
    made.last_speed = mean_of(runs, std::mem_fn(&outcome::speed));
    made.accuracy.add(epochs, made.last_accuracy);
  }
  made.speed.add(place + 1, made.last_speed);
  return made;
}

} // namespace

void run_hogwild(const experiment_options& options, experiment_result& result) {
  if (options.stop && options.stop()) throw experiment_stopped();
  const hogwild_setting on = options.data ? given_samples(options) : drawn_samples(options);
  figure f("accuracy", "What workers lose that write without locks",
           fmt::format("Accuracy on the test set of one dense layer, with {}. Two threads of this machine "
                       "write to one block of weights.",
                       on.samples),
           {"epochs", axis_scale::doubling}, {"test accuracy"});
  figure speed("speed", "How fast workers train that write without locks",
               fmt::format("Samples a second of one dense layer, with {}, on this machine.", on.samples),
               {""}, {"samples a second"});
  std::vector<runs_of_way> all;
  for (std::size_t i = 0; i < std::size(ways_to_write); ++i) {
    all.push_back(run_way(ways_to_write[i], i, on, options));
    f.series.push_back(all.back().accuracy);
    speed.series.push_back(all.back().speed);
    speed.x.marks.emplace_back(ways_to_write[i].name);
  }
  const runs_of_way &one = all[0], &two = all[1];
  result.expect(fmt::format("accuracy of two workers after {} epochs", on.epochs.back()), "",
                "that of one worker", one.last_accuracy.mean, two.last_accuracy, 0.01);
  result.expect("gradients that were computed and not written", "", "by counting", 0,
                {one.lost + two.lost, {claim::unknown, one.last_accuracy.spread.seeds}});
  // Of data that were given, since speed is a matter of the machine and of what else it does. Two workers are
  // slower than one only if their writes hinder each other.
  if (options.data)
    result.expect("speed of two workers, over that of one", "", "that of one worker", 1,
                  two.last_speed / one.last_speed.mean, 0.25, relation::at_least);
  result.figures.push_back(std::move(f));
  result.figures.push_back(std::move(speed));
}

} // namespace mailgrad::lab
