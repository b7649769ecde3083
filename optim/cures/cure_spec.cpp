#include <mailgrad/optim/cures/cosine_gate.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/cures/custom_cure.hpp>
#include <mailgrad/optim/cures/dana.hpp>
#include <mailgrad/optim/cures/delay_compensation.hpp>
#include <mailgrad/optim/cures/delay_feedback.hpp>
#include <mailgrad/optim/cures/elastic_averaging.hpp>
#include <mailgrad/optim/cures/gap_aware.hpp>
#include <mailgrad/optim/cures/heading_correction.hpp>
#include <mailgrad/optim/cures/momentum_compensation.hpp>
#include <mailgrad/optim/cures/momentum_look_ahead.hpp>
#include <mailgrad/optim/cures/step_scales.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/options/settings.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

using cure_numbers = std::span<const double>;

struct known_cure {
  std::string_view name;
  cure_form form;
  std::size_t most_numbers;
  bool all_or_none; ///< numbers
  double below;     ///< the first number
  std::unique_ptr<cure> (*make)(cure_numbers, const cure_site&);
};

constexpr std::string_view name_of(const cure_form& form) { return name_of_choice(form.text); }

/// A cure of Mailgrad's is called as its form begins.
template <class Cure>
struct named final : Cure {
  using Cure::Cure;
  std::string_view name() const noexcept override { return name_of(Cure::form); }
};

template <class Cure>
constexpr known_cure known_as(std::size_t most_numbers, double below = unlimited) {
  return {name_of(Cure::form),
          Cure::form,
          most_numbers,
          most_numbers == 2,
          below,
          [](cure_numbers n, const cure_site& site) -> std::unique_ptr<cure> {
            return std::make_unique<named<Cure>>(n, site);
          }};
}

constexpr std::array known_cures{
    known_as<step_scale<inverse_scale>>(0),
    known_as<step_scale<dynsgd_scale>>(0),
    known_as<step_scale<polynomial_scale>>(1),
    known_as<step_scale<hinge_scale>>(2),
    known_as<step_scale<mishchenko_scale>>(0),
    known_as<step_scale<koloskova_scale>>(0),
    known_as<step_scale<fedbuff_scale>>(0),
    known_as<step_scale<rescaled_scale>>(0),
    known_as<delay_compensation>(1),
    known_as<adaptive_delay_compensation>(1),
    known_as<delay_feedback>(1),
    known_as<gap_aware>(0),
    known_as<dana_zero>(1, 1),
    known_as<dana_slim>(1, 1),
    known_as<dana_dc>(2, 1),
    known_as<elastic_averaging>(1, 1),
    known_as<momentum_compensation>(0),
    known_as<cosine_gate>(2),
    known_as<momentum_look_ahead>(1),
    known_as<heading_correction>(1, 1),
};

constexpr std::string_view no_cure = "none";

struct custom_known_cure {
  std::string word, form;
  known_cure known;

  custom_known_cure(std::string_view called, const custom_cure_entry& entry)
      : word(called), form(word + (entry.most_numbers == 0 ? "" : ":A")),
        known{word, {form, "of your own", ""}, entry.most_numbers, false, unlimited, entry.make} {}
  custom_known_cure(const custom_known_cure&) = delete; // `known` points into it
  custom_known_cure& operator=(const custom_known_cure&) = delete;
  static bool can_be_made(const custom_cure_entry& e) { return e.make != nullptr; }
};

auto& cures() {
  static choice_registry<known_cure, custom_known_cure, custom_cure_entry> all(
      {"cure", "cures", no_cure, "mailgrad_plugin_cure", custom_cure_version}, known_cures);
  return all;
}

std::vector<double> numbers_of(const named_choice& choice, const known_cure& c) {
  std::vector<double> all;
  for (const std::string_view word : choice.arguments) {
    const auto n = parse_number(word);
    if (!n || !(*n >= 0 && *n < (all.empty() ? c.below : unlimited)))
      refuse_cure(choice.text, fmt::format("'{}' is no number from 0 on{}; write it as {}", word,
                                           c.below == 1 ? " and below 1" : "", c.form.text));
    all.push_back(*n);
  }
  if (all.size() > c.most_numbers || (all.size() == 1 && c.all_or_none))
    refuse_cure(choice.text, fmt::format("write it as {}", c.form.text));
  return all;
}

} // namespace

void register_cure(const custom_cure_entry& entry) { cures().add(entry); }
void register_cure(const custom_cure_entry& entry, std::string_view word) { cures().add(word, entry); }
std::vector<std::string> plugins_of_cure(std::string_view text) {
  const std::string_view word = name_of_choice(text);
  if (!names_a_plugin(word)) return {};
  return {std::string(word)};
}

std::vector<cure_form> cure_forms() {
  std::vector<cure_form> forms;
  for (const known_cure& c : known_cures) forms.push_back(c.form);
  return forms;
}

cure_spec::cure_spec(std::string_view text, std::uint32_t workers) : text_(text), workers_(workers) {
  if (text == no_cure) return;
  const named_choice choice(text);
  const known_cure& c = cures().find_or_load(choice.name);
  numbers_ = numbers_of(choice, c);
  make_ = c.make;
  own_ = std::ranges::find(known_cures, choice.name, &known_cure::name) == known_cures.end();
  const auto made = make({workers});
  traits_ = {made->has_factor(), made->compensates(), made->predicts(), made->sees_variables(), made->pull()};
}

std::unique_ptr<cure> cure_spec::make(const cure_site& site) const {
  return make_ ? make_(numbers_, site) : nullptr;
}

void cure_spec::require_fits(const cure_setting& setting) const {
  const auto made = make({workers_});
  if (!made) return;
  for (const policy_spec& policy : setting.policies)
    if (policy.traits().has_rounds)
      refuse_cure(text_,
                  fmt::format("under {} a gradient is part of several updates, and no cure knows which; "
                              "leave one of both out",
                              policy.text()));
  made->require_fits(text_, setting);
}

optimizer_options cure_spec::adapted(optimizer_options asked) const {
  const auto made = make({workers_});
  return made ? made->adapted(std::move(asked), workers_) : asked;
}
std::unique_ptr<cure> make_cure(std::string_view text, const cure_site& site) {
  return cure_spec(text, site.workers).make(site);
}

} // namespace mailgrad
