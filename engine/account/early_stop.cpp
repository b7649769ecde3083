#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/account/figures.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr double least_measure = 1;
constexpr const char* what_to_do =
    "take a smaller --lr, --clip-norm or a cure of staleness, or train on by --on-divergence go-on";

using comparison = stop_condition::comparison;

struct comparison_form {
  std::string_view sign;
  comparison what;
  const char* in_words;
  bool (*holds)(double x, double bound);
};

/// Longer signs first, since "<" begins "<=".
constexpr std::array<comparison_form, 4> comparisons{
    {{"<=", comparison::at_most, "at most", [](double x, double bound) { return x <= bound; }},
     {">=", comparison::at_least, "at least", [](double x, double bound) { return x >= bound; }},
     {"<", comparison::below, "below", [](double x, double bound) { return x < bound; }},
     {">", comparison::above, "above", [](double x, double bound) { return x > bound; }}}};

const comparison_form& form_of(comparison what) {
  return *std::ranges::find(comparisons, what, &comparison_form::what);
}

/// Names that stand for the figure of the samples on which a run is judged.
constexpr std::array<std::string_view, 3> short_names{"loss", "accuracy", "rmse"};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

[[noreturn]] void refuse(std::string_view condition, const std::string& why) {
  throw std::invalid_argument(fmt::format("--stop-when '{}': {}", condition, why));
}

std::string full_name(std::string_view name, judged_on samples) {
  if (std::ranges::find(short_names, name) == short_names.end()) return std::string(name);
  if (samples == judged_on::validation) return fmt::format("validation_{}", name);
  return samples == judged_on::nothing && name == "loss" ? "train_loss" : fmt::format("test_{}", name);
}

figure known_figure(std::string_view condition, std::string_view name, judged_on samples) {
  const std::string full = full_name(name, samples);
  std::vector<std::string_view> names(short_names.begin(), short_names.end());
  for (figure& f : figures_of(metrics_line{})) {
    if (f.name == full) return std::move(f);
    names.emplace_back(f.name);
  }
  refuse(condition, fmt::format("there is no figure '{}'; {}", name, suggestion(name, names)));
}

/// A condition of any figure, also of one that the run may not have, and that figure.
std::pair<stop_condition, figure> parse_condition(std::string_view text, judged_on samples) {
  const std::string_view whole = trimmed(text);
  for (const auto& [sign, what, words, holds] : comparisons) {
    const std::size_t place = whole.find(sign);
    if (place == std::string_view::npos) continue;
    const std::string_view bound = trimmed(whole.substr(place + sign.size()));
    const std::optional<double> number = parse_number(bound);
    if (!number || !std::isfinite(*number)) refuse(whole, fmt::format("'{}' is no number", bound));
    figure known = known_figure(whole, trimmed(whole.substr(0, place)), samples);
    return {{known.name, what, *number}, std::move(known)};
  }
  refuse(whole, "expected a figure, one of < <= > >=, and a number, as in loss<0.3");
}

void require_tested(std::string_view condition, const figure& f, judged_on samples) {
  if (!f.elsewhere.of_tests) return;
  if (samples == judged_on::nothing)
    refuse(condition, fmt::format("'{}' is not measured during the run; say how often to test", f.name));
  if (std::string_view(f.name).starts_with("validation_") != (samples == judged_on::validation))
    refuse(condition, fmt::format("during the run weights are tested on the {}, so '{}' is not known",
                                  samples == judged_on::test ? "test samples; no samples are held out"
                                                             : "samples that are held out",
                                  f.name));
}

std::optional<double> figure_of(const metrics_line& x, std::string_view name) {
  const std::vector<figure> all = figures_of(x);
  return std::ranges::find(all, name, &figure::name)->number();
}

} // namespace

double chance_loss(const dataset& samples) {
  if (!samples.has_targets())
    return std::log(static_cast<double>(std::max<std::size_t>(1, samples.classes())));
  double sum = 0;
  for (const float target : samples.targets()) sum += static_cast<double>(target) * target;
  return samples.targets().empty() ? 0 : sum / static_cast<double>(samples.targets().size());
}

std::string format_loss(double loss) {
  constexpr double most_with_digits = 1e6;
  return std::abs(loss) < most_with_digits ? fmt::format("{:.4f}", loss) : fmt::format("{:.2g}", loss);
}

divergence_watch::divergence_watch(double chance, std::uint32_t workers)
    : chance_(chance), workers_(std::max(1U, workers)) {}

std::optional<std::string> divergence_watch::take(std::uint64_t steps, std::uint64_t samples,
                                                  double loss_sum) {
  if (!chance_ || samples == 0) return std::nullopt;
  const double loss = loss_sum / static_cast<double>(samples);
  if (std::isinf(limit_)) limit_ = factor * std::max({least_measure, *chance_, std::abs(loss)});
  if (!(loss > limit_)) {
    notices_ = steps_ = 0;
    return std::nullopt;
  }
  least_ = notices_ == 0 ? loss : std::min(least_, loss);
  ++notices_;
  steps_ += steps;
  if (notices_ < notices_each * workers_ || steps_ < std::max(least_steps, steps_each * workers_)) return {};
  if (std::exchange(told_, true)) return std::nullopt;
  return fmt::format(
      "the loss has grown to nonsense: {} or more in {} steps in a row, above the limit of {:.4g}; {}",
      format_loss(least_), steps_, limit_, what_to_do);
}

std::string ended_in_nonsense(const std::string& whose, double loss, double limit) {
  if (!std::isfinite(loss)) return fmt::format("the loss of {} is no finite number", whose);
  if (loss <= limit) return {};
  return fmt::format("the loss has grown to nonsense: that of {} is {}, above the limit of {:.4g}; {}", whose,
                     format_loss(loss), limit, what_to_do);
}

bool stop_condition::holds(const metrics_line& x) const {
  const std::optional<double> known = figure_of(x, figure);
  return known && std::ranges::any_of(comparisons, [&](const comparison_form& form) {
           return form.what == reaches && form.holds(*known, bound);
         });
}

std::vector<stop_condition> parse_stop_conditions(std::string_view text, judged_on samples) {
  std::vector<stop_condition> all;
  for (const std::string_view word : words_between(text, ',')) {
    auto [condition, known] = parse_condition(word, samples);
    require_tested(trimmed(word), known, samples);
    all.push_back(std::move(condition));
  }
  return all;
}

bool asks_for_tests(std::string_view text) {
  return std::ranges::any_of(words_between(text, ','), [](std::string_view word) {
    return parse_condition(word, judged_on::nothing).second.elsewhere.of_tests;
  });
}

void judged_tests::keep(archive& a) {
  a.version(1);
  a.fields({"steps", "worse", "lowest_loss", "lowest_at"}, steps, worse, lowest_loss, lowest_at);
}

early_stop::early_stop(std::vector<stop_condition> conditions, std::uint64_t patience,
                       const judged_tests& before, counted_tests counted, std::uint64_t steps_before)
    : conditions_(std::move(conditions)), patience_(patience), tests_(before), counted_(counted),
      steps_before_(steps_before) {}

std::optional<std::string> early_stop::judge(const metrics_line& x) {
  if (ended_) return std::nullopt;
  const auto met =
      std::ranges::find_if(conditions_, [&](const stop_condition& condition) { return condition.holds(x); });
  if (met == conditions_.end()) return std::nullopt;
  ended_ = true;
  return fmt::format("{} is {:g}, {} {:g}", met->figure, figure_of(x, met->figure).value(),
                     form_of(met->reaches).in_words, met->bound);
}

std::optional<std::string> early_stop::judge(const evaluation_made& x) {
  if (ended_ || !counts_tests()) return std::nullopt;
  tests_.steps = x.steps;
  if (!tests_.lowest_loss || x.loss < *tests_.lowest_loss) {
    tests_.lowest_loss = x.loss;
    tests_.lowest_at = steps_before_ + x.steps;
    tests_.worse = 0;
    return std::nullopt;
  }
  if (++tests_.worse < patience_ || patience_ == 0) return std::nullopt;
  ended_ = true;
  return fmt::format("the {} loss has not fallen in {} test{}; the lowest was {:g}, after {} steps",
                     x.held_out ? "validation" : "test", patience_, patience_ == 1 ? "" : "s",
                     *tests_.lowest_loss, tests_.lowest_at);
}

} // namespace mailgrad
