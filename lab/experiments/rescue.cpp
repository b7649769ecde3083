#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <mailgrad/data/open.hpp>

#include <fmt/format.h>

// One dense layer on Fashion-MNIST with thirty workers, in batches of four, as SA-ASGD trains CIFAR-10 in its
// Figure 3. At a rate that one worker bears, thirty do not; a step divided by its staleness is safe again.

namespace mailgrad::lab {

namespace {

struct way_out {
  const char* name;
  std::uint32_t workers;
  const char* cure;
};

constexpr way_out ways_out[] = {
    {"one worker", 1, "none"}, {"30 workers", 30, "none"}, {"30 workers, inverse", 30, "inverse"}};

double test_loss_of(const way_out& w, const std::shared_ptr<const data_split>& data, double rate,
                    std::uint64_t seed, const experiment_options& options) {
  training_options o;
  o.policy = "async";
  o.cure = w.cure;
  o.delays = "gamma:cv=0.1";
  o.delays_seed = o.seed = seed;
  o.optimizer.learning_rate = rate;
  o.when_diverged = on_divergence::go_on; // how badly it ends is what is compared
  o.batch = 4;
  o.steps = options.quick ? 6'000 : 15'000;
  virtual_run_options lab{w.workers};
  lab.stop = options.stop;
  virtual_run run(find_model("softmax"), data, o, std::move(lab));
  run.run();
  const training_report r = run.report();
  if (r.ended == "stopped") throw experiment_stopped();
  return r.test_loss.value_or(claim::unknown);
}

} // namespace

void run_rescue(const experiment_options& options, experiment_result& result) {
  if (options.stop && options.stop()) throw experiment_stopped();
  const auto data = std::make_shared<const data_split>(open_data("fashion-mnist"));
  constexpr double compared_at = 0.1;
  const std::vector<double> rates =
      options.quick ? std::vector<double>{compared_at} : std::vector<double>{0.01, 0.03, compared_at, 0.3};
  figure f("loss", "A step divided by its staleness bears the rate of one worker",
           fmt::format("Loss on the test set of Fashion-MNIST after {} batches of four samples, one dense "
                       "layer, and workers whose times vary by a tenth.",
                       options.quick ? 6'000 : 15'000),
           {"learning rate", axis_scale::logarithmic}, {"test loss", axis_scale::logarithmic});
  std::vector<seeds_mean> found;
  for (const way_out& w : ways_out) {
    figure_series s{w.name};
    for (const double rate : rates) {
      const seeds_mean m = mean_over_seeds(options, options.quick ? 2 : 3, [&](std::uint64_t seed) {
        return test_loss_of(w, data, rate, seed, options);
      });
      s.add(rate, m);
      if (rate == compared_at) found.push_back(m);
    }
    f.series.push_back(std::move(s));
  }
  result.expect("test loss at rate 0.1, 30 workers, inverse", "", "that of one worker", found[0].mean,
                found[2], 0.1, relation::at_most);
  result.expect("test loss at rate 0.1, 30 workers, no cure", "", "5 times that of one worker",
                5 * found[0].mean, found[1], 0, relation::at_least);
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
