// Trains on arrays in the program's memory, without a file, with two named inputs. The ratings of items by
// users follow from a hidden formula. Two workers that do not wait for each other learn a table of vectors
// for users and one for items. The run ends as soon as its loss is small. Then it predicts a rating.

#include <mailgrad/mailgrad.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <random>

using namespace mailgrad;

constexpr std::size_t users = 50, items = 40, width = 4;

/// The arrays of the program, all of one length.
struct ratings {
  std::vector<std::int32_t> user, item;
  std::vector<float> stars;
};

float taste(std::int32_t user, std::int32_t item) {
  return 3 + 2 * std::sin(static_cast<float>(user)) * std::cos(static_cast<float>(item));
}

ratings drawn(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ratings r;
  for (std::size_t i = 0; i < count; ++i) {
    r.user.push_back(static_cast<std::int32_t>(random() % users));
    r.item.push_back(static_cast<std::int32_t>(random() % items));
    r.stars.push_back(taste(r.user.back(), r.item.back()));
  }
  return r;
}

/// Each array feeds the input of its name. The vectors are moved in, so nothing is copied.
dataset samples_of(ratings r) {
  const std::size_t n = r.stars.size();
  return dataset::from(
      {{"user", sample_array({n}, std::move(r.user))}, {"item", sample_array({n}, std::move(r.item))}},
      sample_array({n}, std::move(r.stars)));
}

model_outputs factors(graph& g, const model_request& r) {
  const value user = embedding(g.input("user", {r.batch}, dtype::int32), users, width, "users");
  const value item = embedding(g.input("item", {r.batch}, dtype::int32), items, width, "items");
  const value rating = dense(user * item, 1, "rating");
  return {rating, mean_squared_error(reshape(rating, {r.batch}), g.input("labels", {r.batch}))};
}

int main() try {
  data_split arrays;
  arrays.train = samples_of(drawn(20'000, 1));
  arrays.test = samples_of(drawn(1'000, 2));
  arrays.name = "ratings in memory";

  training_options options;
  options.devices = cpus(2);
  options.optimizer = parse_optimizer("adam");
  options.optimizer.learning_rate = 0.01;
  options.epochs = 200;
  training run(factors, std::move(arrays), options);

  // The program may read the progress of the run at any time, and may end it.
  while (!run.wait_for(std::chrono::milliseconds(50))) {
    const training_progress now = run.progress();
    if (now.steps > 1000 && now.loss < 1e-3) run.stop("the loss is small enough");
  }
  const training_report report = run.report();
  std::printf("%s after %llu of %llu steps\n", report.why.empty() ? report.ended.c_str() : report.why.c_str(),
              static_cast<unsigned long long>(report.steps),
              static_cast<unsigned long long>(run.total_steps()));
  std::printf("test error %.3f stars\n", report.test_rmse.value_or(NAN));

  const std::vector<std::int32_t> user{7}, item{3};
  const std::vector<float> stars =
      run.predict({{"user", sample_array({1}, user)}, {"item", sample_array({1}, item)}});
  std::printf("user 7 gives item 3 %.2f stars, and the run predicts %.2f\n", double{taste(7, 3)},
              double{stars[0]});
  return report.test_rmse.value_or(1) < 0.1 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "in_memory: %s\n", e.what());
  return 2;
}
