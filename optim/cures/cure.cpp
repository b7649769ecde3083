#include <mailgrad/optim/cures/cure.hpp>

#include <fmt/format.h>

#include <variant>

namespace mailgrad {

void require_single_gradients(std::string_view text, const cure_setting& setting) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().makes_batches)
      refuse_cure(text, fmt::format("under {} an update is no single gradient; take async, ssp, dssp or "
                                    "ringmaster",
                                    policy.text()));
}

void require_always_stale(std::string_view text, const cure_setting& setting, std::string_view why) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().always_fresh)
      refuse_cure(text, fmt::format("under {} {}; take async alone", policy.text(), why));
}

void require_outer_steps(std::string_view text, const cure_setting& setting) {
  if (setting.local_steps == 0)
    refuse_cure(text, "it treats what workers with local steps send; say how many steps each takes before it "
                      "meets the shards, as --local-steps 4");
}

void require_outer_momentum(std::string_view text, const cure_setting& setting) {
  const auto& rule = setting.optimizer.rule;
  if (!std::holds_alternative<momentum_options>(rule) && !std::holds_alternative<nesterov_options>(rule))
    refuse_cure(text, fmt::format("it looks at the outer momentum; take --outer-optimizer nesterov or "
                                  "momentum, not {}",
                                  name(setting.optimizer)));
}

std::string_view optimizer_option(const cure_setting& setting) noexcept {
  return setting.local_steps > 0 ? "--outer-optimizer" : "--optimizer";
}

double outer_momentum(const optimizer_options& rule) noexcept {
  if (const auto* momentum = std::get_if<momentum_options>(&rule.rule)) return momentum->momentum;
  if (const auto* nesterov = std::get_if<nesterov_options>(&rule.rule)) return nesterov->momentum;
  return 0;
}

} // namespace mailgrad
