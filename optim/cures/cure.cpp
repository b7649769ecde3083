#include <mailgrad/optim/cures/cure.hpp>

#include <mailgrad/optim/cures/dana.hpp>
#include <mailgrad/optim/cures/delay_compensation.hpp>
#include <mailgrad/optim/cures/elastic_averaging.hpp>
#include <mailgrad/optim/cures/gap_aware.hpp>
#include <mailgrad/optim/cures/step_scales.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/options/nearest_name.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

using numbers = std::span<const double>;

/// Changes the shard's optimiser and nothing else.
class momentum_compensation final : public cure {
public:
  static constexpr cure_form form{"momentum-compensation",
                                  "the momentum asked for less 1 - 1 / M, its share by asynchrony",
                                  "Mitliagkas et al., 2016"};
  momentum_compensation(numbers, const cure_site&) {}
  std::string_view name() const noexcept override { return form.text; }
};

struct known_cure {
  std::string_view name;
  cure_form form;
  std::size_t most_numbers;
  double below; ///< the first number
  std::unique_ptr<cure> (*make)(numbers, const cure_site&);
};

constexpr double any = std::numeric_limits<double>::infinity();

constexpr std::string_view name_of(const cure_form& form) { return form.text.substr(0, form.text.find(':')); }

template <class Cure>
constexpr known_cure known_as(std::size_t most_numbers, double below = any) {
  return {name_of(Cure::form), Cure::form, most_numbers, below,
          [](numbers n, const cure_site& site) -> std::unique_ptr<cure> {
            return std::make_unique<Cure>(n, site);
          }};
}

constexpr std::array known{
    known_as<inverse_scale>(0), known_as<dynsgd_scale>(0),         known_as<polynomial_scale>(1),
    known_as<hinge_scale>(2),   known_as<mishchenko_scale>(0),     known_as<koloskova_scale>(0),
    known_as<fedbuff_scale>(0), known_as<delay_compensation>(1),   known_as<adaptive_delay_compensation>(1),
    known_as<gap_aware>(0),     known_as<dana_zero>(1, 1),         known_as<dana_slim>(1, 1),
    known_as<dana_dc>(2, 1),    known_as<elastic_averaging>(1, 1), known_as<momentum_compensation>(0),
};

constexpr std::string_view no_cure = "none";

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw std::invalid_argument("cure '" + std::string(text) + "': " + why);
}

const known_cure& find(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto found = std::ranges::find(known, name, &known_cure::name);
  if (found != known.end()) return *found;
  std::vector<std::string_view> names{no_cure};
  for (const known_cure& c : known) names.push_back(c.name);
  throw std::invalid_argument("cure '" + std::string(name) + "' is unknown; " + suggestion(name, names));
}

std::vector<double> read_numbers(std::string_view text, const known_cure& c) {
  std::vector<double> all;
  std::size_t at = text.find(':');
  while (at != std::string_view::npos) {
    const std::size_t next = text.find(',', at + 1);
    const std::string_view word =
        text.substr(at + 1, next == std::string_view::npos ? std::string_view::npos : next - at - 1);
    double n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc{} || end != word.data() + word.size() || !(n >= 0) ||
        !(n < (all.empty() ? c.below : any)))
      fail(text, "'" + std::string(word) + "' is no number from 0 on" + (c.below == 1 ? " and below 1" : "") +
                     "; write it as " + std::string(c.form.text));
    all.push_back(n);
    at = next;
  }
  if (all.size() > c.most_numbers || (all.size() == 1 && c.most_numbers == 2))
    fail(text, "write it as " + std::string(c.form.text));
  return all;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Under some policy there must be something to cure.
void require_staleness(std::string_view text, const cure_setting& setting) {
  std::string names;
  for (const std::string_view policy : setting.policies) {
    if (policy != hogwild_policy::policy_name && !make_policy(policy, setting.workers)->always_fresh())
      return;
    names += (names.empty() ? "" : ", ") + std::string(policy);
  }
  fail(text, setting.policies.front() == hogwild_policy::policy_name
                 ? "under hogwild no shard sees a gradient; take async"
                 : "under " + names + " every gradient is fresh, so there is nothing to cure");
}

/// For cures whose steps are defined one gradient at a time.
void require_single_gradients(std::string_view text, const cure_setting& setting) {
  for (const std::string_view policy : setting.policies)
    if (policy == hogwild_policy::policy_name || make_policy(policy, setting.workers)->makes_batches())
      fail(text, "under " + std::string(policy) +
                     " an update is no single gradient; take async, ssp, dssp or ringmaster");
}

/// Asynchrony brings momentum, a barrier does not.
void require_always_stale(std::string_view text, const cure_setting& setting) {
  for (const std::string_view policy : setting.policies)
    if (policy == hogwild_policy::policy_name || make_policy(policy, setting.workers)->always_fresh())
      fail(text, "under " + std::string(policy) +
                     " it would take momentum away and nothing would bring it back; "
                     "take async alone");
}

void require_momentum_compensation(std::string_view text, const cure_setting& setting) {
  require_always_stale(text, setting);
  if (!std::holds_alternative<momentum_options>(setting.optimizer.rule))
    fail(text, "there is no momentum to take from; take the optimizer momentum, not " +
                   std::string(mailgrad::name(setting.optimizer)));
}

void require_gap_aware(std::string_view text, const cure_setting& setting) {
  require_single_gradients(text, setting);
  const auto& rule = setting.optimizer.rule;
  if (!std::holds_alternative<sgd_options>(rule) && !std::holds_alternative<momentum_options>(rule) &&
      !std::holds_alternative<nesterov_options>(rule))
    fail(text, "it measures gaps in steps of sgd, momentum or nesterov, not of " +
                   std::string(mailgrad::name(setting.optimizer)));
}

void require_dana(std::string_view text, const cure_setting& setting) {
  require_single_gradients(text, setting);
  if (!std::holds_alternative<sgd_options>(setting.optimizer.rule))
    fail(text, "it brings a momentum of its own; take the optimizer sgd, not " +
                   std::string(mailgrad::name(setting.optimizer)));
}

/// Rejects the ways of training for which the paper of easgd defines no form.
void require_elastic(std::string_view text, const cure_setting& setting) {
  for (const std::string_view policy : setting.policies)
    if (policy != async_policy::policy_name && policy != sync_policy::policy_name)
      fail(text, "its paper does not define it under " + std::string(policy) + "; take async or sync");
  if (setting.local_steps == 0)
    fail(text, "workers need weights of their own; say after how many steps they meet the shard's, as local "
               "steps 4");
  if (!std::holds_alternative<sgd_options>(setting.optimizer.rule) ||
      base_learning_rate(setting.optimizer) != 1 || to_string(setting.optimizer.schedule) != "constant")
    fail(text, "its pull is the whole step of the shard; the outer optimizer must be sgd of learning rate 1");
}

} // namespace

void cure::compensate(const stale_gradient&, std::span<float>) {}

void cure::predict(std::span<const float>, double, std::span<float>) const {}

std::vector<cure_form> cure_forms() {
  std::vector<cure_form> forms;
  forms.reserve(known.size());
  for (const known_cure& c : known) forms.push_back(c.form);
  return forms;
}

std::unique_ptr<cure> make_cure(std::string_view text, const cure_site& site) {
  if (text == no_cure) return nullptr;
  const known_cure& c = find(text);
  return c.make(read_numbers(text, c), site);
}

void require_cure(std::string_view text, const cure_setting& setting) {
  const auto wanted = make_cure(text, {setting.workers});
  if (!wanted) return;
  if (wanted->name() == "easgd") return require_elastic(text, setting); // it needs no staleness
  require_staleness(text, setting);
  if (is_one_of(wanted->name(), {"dana-zero", "dana-dc", "dana-slim"})) require_dana(text, setting);
  if (wanted->name() == "gap-aware") require_gap_aware(text, setting);
  if (wanted->name() == momentum_compensation::form.text) require_momentum_compensation(text, setting);
}

optimizer_options adapted_optimizer(std::string_view cure, optimizer_options options, std::uint32_t workers) {
  if (cure != momentum_compensation::form.text) return options;
  if (auto* rule = std::get_if<momentum_options>(&options.rule)) rule->momentum -= 1 - 1.0 / workers;
  return options;
}

} // namespace mailgrad
