#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/settings.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <numeric>
#include <stdexcept>

namespace mailgrad {

namespace {

/// Computes a formula from left to right, by recursive descent: a sum of products of powers.
class formula_reader {
public:
  formula_reader(std::string_view text, double i, double n) : text_(text), i_(i), n_(n) {}

  double whole() {
    const double result = sum();
    if (at_ != text_.size()) fail("an operator");
    return result;
  }

private:
  static constexpr int deepest = 64; ///< parentheses and signs within each other

  [[noreturn]] void fail(std::string_view expected) const {
    const std::string found = at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "its end";
    throw std::invalid_argument(fmt::format(
        "'{}' is no formula of i, as sqrt(i) or 1+4*i are: expected {}, found {}", text_, expected, found));
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  double sum() {
    double result = product();
    for (;;) {
      if (take("+"))
        result += product();
      else if (take("-"))
        result -= product();
      else
        return result;
    }
  }

  double product() {
    double result = signed_power();
    for (;;) {
      if (take("*"))
        result *= signed_power();
      else if (take("/"))
        result /= signed_power();
      else
        return result;
    }
  }

  double signed_power() {
    if (++depth_ > deepest) fail("less depth");
    const double result = take("-") ? -signed_power() : power();
    --depth_;
    return result;
  }

  double power() {
    const double base = atom();
    return take("^") ? std::pow(base, signed_power()) : base;
  }

  double atom() {
    if (take("sqrt(")) return std::sqrt(in_parentheses());
    if (take("(")) return in_parentheses();
    if (take("i")) return i_;
    if (take("n")) return n_;
    return number();
  }

  double in_parentheses() {
    const double result = sum();
    if (!take(")")) fail("')'");
    return result;
  }

  double number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    double result = 0;
    const bool begins = begin != end && (*begin == '.' || (*begin >= '0' && *begin <= '9'));
    const auto read = begins ? std::from_chars(begin, end, result)
                             : std::from_chars_result{begin, std::errc::invalid_argument};
    if (read.ec != std::errc{}) fail("a number, i, n, sqrt() or '('");
    at_ += static_cast<std::size_t>(read.ptr - begin);
    return result;
  }

  std::string_view text_;
  double i_;
  double n_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

worker_formula::worker_formula(std::string_view text) : text_(text) { of(0, 1); }

double worker_formula::of(std::uint32_t worker, std::uint32_t workers) const {
  return formula_reader(text_, static_cast<double>(worker) + 1, workers).whole();
}

namespace {

/// A law whose steps are drawn independently: base + scale * draw. `Shape` makes the draw.
template <class Shape>
class drawn_delay final : public delay_law {
public:
  drawn_delay(drawn_worker who, double base, double scale, Shape shape)
      : who_(who), base_(base), scale_(scale), shape_(shape) {}

  double seconds(std::uint64_t step, double) override {
    step_draws draws(who_.seed, who_.worker, step);
    return std::min(base_ + scale_ * shape_(draws), longest);
  }

private:
  drawn_worker who_;
  double base_, scale_;
  Shape shape_;
};

/// A worker that is fast or slow for many steps at a time, by a Markov chain in its long-run state.
class markov_delay final : public delay_law {
public:
  struct terms {
    double time = 1;       ///< seconds of a fast step
    double factor = 10;    ///< a slow step takes so many times as long
    double to_slow = 0.05; ///< probability
    double to_fast = 0.2;  ///< probability
  };

  markov_delay(drawn_worker who, const terms& t) : who_(who), terms_(t) {}

  double seconds(std::uint64_t step, double) override {
    const double both = terms_.to_slow + terms_.to_fast;
    if (known_ == 0) {
      slow_ = both > 0 && step_draws(who_.seed, who_.worker, 0).uniform() < terms_.to_slow / both;
      known_ = 1;
    }
    for (; known_ < step; ++known_) {
      const double u = step_draws(who_.seed, who_.worker, known_).uniform();
      if (u < (slow_ ? terms_.to_fast : terms_.to_slow)) slow_ = !slow_;
    }
    return std::min(terms_.time * (slow_ ? terms_.factor : 1), longest);
  }

private:
  drawn_worker who_;
  terms terms_;
  std::uint64_t known_ = 0; ///< the step whose state `slow_` is; 0: none
  bool slow_ = false;
};

struct timed_row {
  double at; ///< seconds since the run began, ascending
  double takes;
};
using rows_of_worker = std::vector<timed_row>;

/// A step takes as long as the last row says that is no later than its begin, or the first row.
class traced_delay final : public delay_law {
public:
  explicit traced_delay(std::shared_ptr<const rows_of_worker> rows) : rows_(std::move(rows)) {}

  double seconds(std::uint64_t, double begins) override {
    while (present_ + 1 < rows_->size() && (*rows_)[present_ + 1].at <= begins) ++present_;
    return (*rows_)[present_].takes;
  }

private:
  std::shared_ptr<const rows_of_worker> rows_;
  std::size_t present_ = 0;
};

/// A step takes the mean of what the class of each sample takes. The list has each label of a batch.
class class_delay final : public delay_law {
public:
  explicit class_delay(std::shared_ptr<const std::vector<double>> seconds) : seconds_(std::move(seconds)) {}

  /// Of a step on one sample of each class.
  double seconds(std::uint64_t, double) override {
    return std::accumulate(seconds_->begin(), seconds_->end(), 0.0) / static_cast<double>(seconds_->size());
  }
  double seconds_on(const batch& inputs, std::uint64_t, double) override {
    double sum = 0;
    for (const std::int32_t label : inputs.labels.values<std::int32_t>())
      sum += seconds_->at(static_cast<std::size_t>(label));
    return std::min(sum / static_cast<double>(inputs.size), longest);
  }

private:
  std::shared_ptr<const std::vector<double>> seconds_;
};

class trace_reader {
public:
  trace_reader(const std::filesystem::path& file, std::uint32_t workers) : lines_(file), rows_(workers) {}

  std::vector<rows_of_worker> read() {
    while (const auto line = lines_.next())
      if (lines_.number().value > 1 || *line != "t,worker,duration") take(*line);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (rows_[r].empty())
        throw_malformed(lines_.file(), fmt::format("expected a line for each of {} workers, found none for "
                                                   "worker {}",
                                                   rows_.size(), r));
    return std::move(rows_);
  }

private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_malformed(lines_.file(), lines_.number(), what);
  }

  void take(std::string_view line) {
    const std::vector<std::string_view> words = words_between(line, ',');
    if (words.size() != 3) fail(fmt::format("expected t,worker,duration, found {}", in_quotes(line)));
    const double at = number(words[0], "a time in seconds");
    if (at < last_)
      fail(fmt::format("expected a time no earlier than {:g}, found {}", last_, in_quotes(words[0])));
    last_ = at;
    const auto worker = parse_whole(words[1]);
    if (!worker || *worker >= rows_.size())
      fail(fmt::format("expected a worker from 0 to {}, found {}", rows_.size() - 1, in_quotes(words[1])));
    rows_[*worker].push_back({at, number(words[2], "a duration in seconds")});
  }

  double number(std::string_view word, std::string_view what) const {
    const auto read = parse_number(word);
    if (!read || !(*read >= 0 && *read <= delay_law::longest))
      fail(fmt::format("expected {} from 0 to {:g}, found {}", what, delay_law::longest, in_quotes(word)));
    return *read;
  }

  line_reader lines_;
  std::vector<rows_of_worker> rows_;
  double last_ = 0;
};

/// The durations of steps that a file lists, by worker: on each line a time in seconds since the run began, a
/// rank, and the seconds of its steps from then on. The first line may be "t,worker,duration".
/// Errors  file_error, with the line: it has no three such numbers; a time before that of the line above; no
///         such worker; a duration below 0 or above delay_law::longest; a worker without a line.
std::vector<std::shared_ptr<const rows_of_worker>> read_delay_trace(const std::filesystem::path& file,
                                                                    std::uint32_t workers) {
  std::vector<std::shared_ptr<const rows_of_worker>> shared;
  for (rows_of_worker& rows : trace_reader(file, workers).read())
    shared.push_back(std::make_shared<const rows_of_worker>(std::move(rows)));
  return shared;
}

using law_maker = std::function<std::unique_ptr<delay_law>(std::uint32_t worker, std::uint64_t seed)>;
using amounts = std::vector<double>; ///< by worker

constexpr double tiny = 1e-12;       ///< the least number of seconds that is above 0
constexpr double longest_mean = 1e6; ///< seconds

[[noreturn]] void fail(std::string_view text, std::string_view why) {
  throw std::invalid_argument(fmt::format("delays '{}': {}", text, why));
}

worker_formula parsed(std::string_view text, std::string_view formula) {
  try {
    return worker_formula(formula);
  } catch (const std::invalid_argument& e) {
    fail(text, e.what());
  }
}

/// The formula `formula` in `text` for each worker: seconds above 0, or from 0 on if `least` is 0.
amounts seconds_by(std::string_view text, std::string_view what, std::string_view formula, double least,
                   std::uint32_t workers) {
  const worker_formula f = parsed(text, formula);
  amounts all(workers);
  for (std::uint32_t r = 0; r < workers; ++r) {
    all[r] = f.of(r, workers);
    if (!(all[r] >= least && all[r] <= longest_mean))
      fail(text, fmt::format("{} must be {} 0 seconds and at most {:g}, found {:g} for worker {}", what,
                             least > 0 ? "above" : "at least", longest_mean, all[r], r));
  }
  return all;
}

class law_text {
public:
  law_text(std::string_view text, std::uint32_t workers)
      : text_(text), workers_(workers), settings_("delays", text) {}

  std::uint32_t workers() const noexcept { return workers_; }
  settings& numbers() noexcept { return settings_; }

  amounts seconds(std::string_view key, std::string_view otherwise, double least = tiny) {
    return seconds_by(text_, key, settings_.take_text(key, otherwise), least, workers_);
  }
  double above_0(std::string_view key, double otherwise) {
    const double n = settings_.take_number(key, otherwise, 0, unlimited);
    if (n == 0) settings_.fail(fmt::format("{} must be above 0", key));
    return n;
  }
  double probability(std::string_view key, double otherwise) {
    const double p = settings_.take_number(key, otherwise, 0, unlimited);
    if (p > 1) settings_.fail(fmt::format("{} is a probability, from 0 to 1, not {:g}", key, p));
    return p;
  }

private:
  std::string_view text_;
  std::uint32_t workers_;
  settings settings_;
};

/// base + scale * draw, both by worker.
template <class Shape>
law_maker drawn(amounts base, amounts scale, Shape shape) {
  return [=](std::uint32_t r, std::uint64_t seed) -> std::unique_ptr<delay_law> {
    return std::make_unique<drawn_delay<Shape>>(drawn_worker{seed, r}, base[r], scale[r], shape);
  };
}
amounts nothing(const law_text& t) { return amounts(t.workers()); }

double no_draw(step_draws&) { return 0; }
double exponential_draw(step_draws& d) { return d.exponential(); } // mean 1

law_maker exponential(law_text& t) { return drawn(nothing(t), t.seconds("mean", "1"), exponential_draw); }

law_maker shifted_exponential(law_text& t) {
  amounts shift = t.seconds("shift", "1", 0);
  return drawn(std::move(shift), t.seconds("mean", "1"), exponential_draw);
}

/// The least draw is 1, and P(X > x) = x^-alpha.
law_maker pareto(law_text& t) {
  const double alpha = t.above_0("alpha", 2);
  return drawn(nothing(t), t.seconds("least", "1"),
               [alpha](step_draws& d) { return std::pow(d.uniform(), -1 / alpha); });
}

/// With mean 1 and the standard deviation `cv`.
auto gamma_draw(double cv) {
  return [cv](step_draws& d) { return d.gamma(1 / (cv * cv)) * cv * cv; };
}

law_maker gamma(law_text& t) {
  const double cv = t.numbers().take_number("cv", 0.1, 1e-6, 1e3);
  const double machines = t.numbers().take_number("machines", 0, 0, 1e3);
  const amounts mean = t.seconds("mean", "1");
  return [=](std::uint32_t r, std::uint64_t seed) -> std::unique_ptr<delay_law> {
    step_draws once(seed, r, 0);
    const double of_machine = machines > 0 ? gamma_draw(machines)(once) : 1;
    return std::make_unique<drawn_delay<decltype(gamma_draw(cv))>>(drawn_worker{seed, r}, 0,
                                                                   mean[r] * of_machine, gamma_draw(cv));
  };
}

/// The draw has mean 1, and its logarithm the standard deviation `sigma`.
law_maker lognormal(law_text& t) {
  const double sigma = t.numbers().take_number("sigma", 0.5, 0, 10);
  return drawn(nothing(t), t.seconds("mean", "1"),
               [sigma](step_draws& d) { return std::exp(sigma * d.normal() - sigma * sigma / 2); });
}

law_maker half_normal(law_text& t) {
  amounts base = t.seconds("base", "1", 0);
  return drawn(std::move(base), t.seconds("sigma", "1"), [](step_draws& d) { return std::abs(d.normal()); });
}

law_maker slowdown(law_text& t) {
  const double p = t.probability("p", 0.05), factor = t.above_0("factor", 10);
  return drawn(nothing(t), t.seconds("time", "1"),
               [=](step_draws& d) { return d.uniform() < p ? factor : 1; });
}

law_maker markov(law_text& t) {
  markov_delay::terms terms;
  terms.factor = t.above_0("factor", terms.factor);
  terms.to_slow = t.probability("to-slow", terms.to_slow);
  terms.to_fast = t.probability("to-fast", terms.to_fast);
  const amounts time = t.seconds("time", "1");
  return [=](std::uint32_t r, std::uint64_t seed) mutable -> std::unique_ptr<delay_law> {
    terms.time = time[r];
    return std::make_unique<markov_delay>(drawn_worker{seed, r}, terms);
  };
}

law_maker outages(law_text& t) {
  outage_delay::terms terms;
  terms.every = t.numbers().take_number("every", terms.every, 1e-3, longest_mean);
  terms.lasts = t.numbers().take_number("lasts", terms.lasts, 0, longest_mean);
  if (terms.lasts > 0.999 * terms.every)
    t.numbers().fail(fmt::format("an outage lasts at most 99.9 % of every={:g} seconds, not {:g} seconds",
                                 terms.every, terms.lasts));
  const amounts time = t.seconds("time", "1");
  return [=](std::uint32_t r, std::uint64_t seed) mutable -> std::unique_ptr<delay_law> {
    terms.time = time[r];
    return std::make_unique<outage_delay>(drawn_worker{seed, r}, terms);
  };
}

struct known_law {
  delay_form form;
  law_maker (*make)(law_text&);
};

constexpr std::array known_laws{
    known_law{{"exp:mean=1", "exponential times: workers without memory"}, exponential},
    known_law{{"shifted-exp:shift=1,mean=1", "a fixed part and an exponential one"}, shifted_exponential},
    known_law{{"pareto:alpha=2,least=1", "a heavy tail; without a variance if alpha is 2 or less"}, pareto},
    known_law{{"gamma:cv=0.1,mean=1,machines=0",
               "cv is the standard deviation by the mean; machines= that of the workers' means"},
              gamma},
    known_law{{"lognormal:sigma=0.5,mean=1", "sigma is the standard deviation of the logarithm"}, lognormal},
    known_law{{"half-normal:base=1,sigma=1", "a fixed part and the absolute value of a normal one"},
              half_normal},
    known_law{{"slowdown:p=0.05,factor=10,time=1", "a step takes `factor` times as long with probability p"},
              slowdown},
    known_law{{"markov:to-slow=0.05,to-fast=0.2,factor=10,time=1",
               "a worker stays slow or fast for some steps; probabilities of a change before a step"},
              markov},
    known_law{{"outages:every=100,lasts=10,time=1", "a worker stands still for a part of each period"},
              outages},
};

std::string_view rest_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
}

law_maker constant(std::string_view text, std::uint32_t workers) {
  if (rest_of(text).empty()) fail(text, "write it as constant:2 or constant:sqrt(i)");
  return drawn(seconds_by(text, "T", rest_of(text), tiny, workers), amounts(workers), no_draw);
}

amounts listed(std::string_view text) {
  amounts each;
  for (const std::string_view word : words_between(rest_of(text), ',')) {
    const auto seconds = parse_number(word);
    if (!seconds || !(*seconds > 0 && *seconds <= longest_mean))
      fail(text, fmt::format("'{}' is no number of seconds above 0 and at most {:g}", word, longest_mean));
    each.push_back(*seconds);
  }
  return each;
}

law_maker list(std::string_view text, std::uint32_t workers) {
  amounts each = listed(text);
  if (each.size() != workers)
    fail(text, fmt::format("expected a number for each of {} workers, found {}", workers, each.size()));
  return drawn(std::move(each), amounts(workers), no_draw);
}

law_maker by_class(std::string_view text, std::uint32_t) {
  return [of = std::make_shared<const amounts>(listed(text))](std::uint32_t, std::uint64_t) {
    return std::make_unique<class_delay>(of);
  };
}

law_maker trace(std::string_view text, std::uint32_t workers) {
  if (rest_of(text).empty()) fail(text, "write it as trace:FILE");
  return [rows = read_delay_trace(rest_of(text), workers)](std::uint32_t r, std::uint64_t) {
    return std::make_unique<traced_delay>(rows[r]);
  };
}

/// Laws with other words after the colon than settings.
struct plain_law {
  delay_form form;
  law_maker (*make)(std::string_view text, std::uint32_t workers);
};

constexpr std::array plain{
    plain_law{{"constant:T", "T seconds, by a formula of the worker's number i: 2, sqrt(i), i^2, 1+4*i"},
              constant},
    plain_law{{"list:1,1,4", "the seconds of each worker"}, list},
    plain_law{
        {"by-class:1,1,4", "the seconds of a sample of each class; a step takes the mean over its batch"},
        by_class},
    plain_law{{"trace:FILE", "lines t,worker,duration: seconds of the steps that begin at t or later"},
              trace},
};

std::vector<std::string_view> law_names() {
  std::vector<std::string_view> names;
  for (const delay_form& f : delay_forms()) names.push_back(name_of_choice(f.text));
  return names;
}

law_maker maker_of(std::string_view text, std::uint32_t workers) {
  const std::string_view name = name_of_choice(text);
  const auto is_named = [&](const auto& law) { return name_of_choice(law.form.text) == name; };
  if (const auto* p = std::ranges::find_if(plain, is_named); p != plain.end()) return p->make(text, workers);
  const auto* law = std::ranges::find_if(known_laws, is_named);
  if (law == known_laws.end())
    throw std::invalid_argument(
        fmt::format("delays '{}' are unknown; {}", name, suggestion(name, law_names())));
  law_text settings(text, workers);
  law_maker made = law->make(settings);
  settings.numbers().require_nothing_left();
  return made;
}

std::size_t classes_in(std::string_view text) {
  return name_of_choice(text) == "by-class" ? words_between(rest_of(text), ',').size() : 0;
}

} // namespace

delay_spec::delay_spec(std::string_view text, std::uint32_t workers)
    : text_(text), workers_(workers), classes_(classes_in(text_)), make_(maker_of(text_, workers)) {}

void delay_spec::require_fits(const dataset& samples) const {
  if (classes_ == 0) return;
  if (samples.labels().empty()) fail(text_, "the answers of this data set are no classes; take another law");
  if (samples.classes() != classes_)
    fail(text_,
         fmt::format("expected a number for each of {} classes, found {}", samples.classes(), classes_));
}

std::unique_ptr<delay_law> delay_spec::law_of(rank worker, std::uint64_t seed) const {
  if (worker.value >= workers_)
    throw std::invalid_argument(
        fmt::format("delays '{}': there is no worker {} of {}", text_, worker.value, workers_));
  return make_(worker.value, seed);
}

std::vector<delay_form> delay_forms() {
  std::vector<delay_form> forms;
  for (const plain_law& law : plain) forms.push_back(law.form);
  for (const known_law& law : known_laws) forms.push_back(law.form);
  return forms;
}

} // namespace mailgrad
