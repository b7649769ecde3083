#include <mailgrad/lab/experiments/quadratic_run.hpp>

#include <fmt/format.h>

#include <array>
#include <random>

// A small language model on a language that is drawn by chance, with one worker, whose gradients are fresh,
// and with two that take turns, whose gradients are one version old, as those of an asynchronous pipeline,
// without a cure and with one that feeds back what an update lacked.

namespace mailgrad::lab {

namespace {

constexpr std::int32_t letters = 15; ///< nine consonants, five vowels and a space
constexpr std::size_t window = 64;

using word = std::vector<std::int32_t>;

/// A word of one to three syllables, each a consonant and a vowel, and the space behind it.
word drawn_word(std::mt19937& random) {
  word w;
  for (std::size_t left = 1 + random() % 3; left > 0; --left) {
    w.push_back(static_cast<std::int32_t>(random() % 9));
    w.push_back(static_cast<std::int32_t>(9 + random() % 5));
  }
  w.push_back(letters - 1);
  return w;
}

/// Texts of 60 words, each of which is followed by one of four others.
std::shared_ptr<const data_split> drawn_language() {
  std::mt19937 random(7);
  std::vector<word> words;
  for (int i = 0; i < 60; ++i) words.push_back(drawn_word(random));
  std::vector<std::array<std::size_t, 4>> next(words.size());
  for (auto& four : next)
    for (std::size_t& one : four) one = random() % words.size();
  const auto part = [&](std::size_t tokens) {
    std::vector<std::int32_t> text;
    for (std::size_t now = 0; text.size() < tokens; now = next[now][random() % 4])
      text.insert(text.end(), words[now].begin(), words[now].end());
    text.resize(tokens);
    return dataset(token_windows{std::move(text), window, window}, std::vector<std::int32_t>{}, letters);
  };
  dataset train = part(100'000), test = part(4'000);
  std::vector<std::string> names;
  for (const char c : std::string("bdklmnrstaeiou ")) names.emplace_back(1, c);
  return std::make_shared<const data_split>(
      data_split{std::move(train), std::move(test), "drawn language", std::move(names)});
}

struct rule {
  std::string_view name;
  double rate; ///< about the best without a delay
};

constexpr const char* feedback = "delay-feedback";
constexpr std::string_view adamw = "adamw", muon = "muon";

/// Those with a claim come first, so that one that is stopped has some.
constexpr rule rules[] = {{adamw, 0.005}, {muon, 0.02}, {"sgd", 0.1}};

/// The loss on the test text of a run whose gradients are `workers` - 1 versions old.
double loss_of(const rule& r, std::uint32_t workers, const char* cure,
               const std::shared_ptr<const data_split>& data, std::uint64_t seed,
               const experiment_options& options) {
  training_options o;
  o.policy = "async";
  o.cure = cure;
  o.delays = "constant:1";
  o.delays_seed = o.seed = seed;
  o.optimizer = parse_optimizer(r.name);
  o.optimizer.learning_rate = r.rate;
  o.batch = 8;
  o.steps = options.quick ? 200 : 400;
  virtual_run_options lab{workers};
  lab.stop = options.stop;
  virtual_run run(find_model("gpt:layers=2,width=32,heads=2"), data, o, std::move(lab));
  run.run();
  const training_report report = run.report();
  if (report.ended == "stopped") throw experiment_stopped();
  return report.test_loss.value_or(claim::unknown);
}

std::uint64_t seeds_of_losses(const experiment_options& options) { return options.quick ? 2 : 5; }

/// What a rule ends with, with one seed.
struct losses {
  double fresh, delayed, fed_back;
};

} // namespace

void run_delayed_optimizers(const experiment_options& options, experiment_result& result) {
  if (options.stop && options.stop()) throw experiment_stopped();
  const auto data = drawn_language();
  figure f(
      "loss", "A delay of one version costs AdamW more than Muon",
      fmt::format("Loss on test samples of a drawn language after {} steps of a transformer of two layers, "
                  "mean and standard deviation of {} seeds, by the age of its gradients.",
                  options.quick ? 200 : 400, seeds_of_losses(options)),
      {"gradients", axis_scale::linear, {"fresh", "one version old", "with delay-feedback"}}, {"test loss"});
  double adamw_lost = 0;
  for (const rule& r : rules) {
    const auto runs = over_seeds(options, seeds_of_losses(options), [&](std::uint64_t seed) {
      return losses{loss_of(r, 1, "none", data, seed, options), loss_of(r, 2, "none", data, seed, options),
                    loss_of(r, 2, feedback, data, seed, options)};
    });
    figure_series s{fmt::format("{}, rate {}", r.name, r.rate), series_look::joined};
    s.add(1, mean_of(runs, std::mem_fn(&losses::fresh)));
    s.add(2, mean_of(runs, std::mem_fn(&losses::delayed)));
    s.add(3, mean_of(runs, std::mem_fn(&losses::fed_back)));
    f.series.push_back(std::move(s));
    const seeds_mean lost = mean_of(runs, [](const losses& l) { return l.delayed - l.fresh; });
    if (r.name == adamw) {
      adamw_lost = lost.mean;
      result.expect("loss that a delay of 1 costs adamw", "", "the paper, of larger models", 0.2, lost,
                    options.quick ? 0.1 : 0, relation::at_least);
      result.expect(fmt::format("loss that it costs adamw with {}", feedback), "", "what it costs without",
                    adamw_lost, mean_of(runs, [](const losses& l) { return l.fed_back - l.fresh; }), 0,
                    relation::at_most);
    }
    if (r.name == muon)
      result.expect("loss that it costs muon", "", "half of what it costs adamw", adamw_lost / 2, lost, 0,
                    relation::at_most);
  }
  result.figures.push_back(std::move(f));
}

} // namespace mailgrad::lab
