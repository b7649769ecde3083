#include <mailgrad/engine/plan/whole_variables.hpp>

#include <mailgrad/optim/rules/muon.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <variant>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const optimizer_options& rule, const std::string& why) {
  throw std::invalid_argument(fmt::format("optimizer '{}' {}", name(rule), why));
}

std::array<const optimizer_options*, 2> rules_of(const training_options& o) {
  return {&o.optimizer, o.local_steps > 0 ? &o.outer : nullptr};
}

bool updates_rows(const optimizer_options& o) {
  return std::holds_alternative<muon_options>(o.rule) || std::holds_alternative<shampoo_options>(o.rule);
}

/// The words that nobody has asked for fit some models only.
void require_words_fit(const optimizer_options& rule, const parameter_layout& layout) {
  const auto* muon = std::get_if<muon_options>(&rule.rule);
  if (!muon || muon->adamw == muon_options::default_adamw) return;
  for (const std::string& word : words_for_adamw(*muon)) {
    const auto has_word = [&](const placed_variable& v) { return v.name.find(word) != std::string::npos; };
    if (std::ranges::none_of(layout.variables(), has_word))
      refuse(rule, fmt::format("leaves '{}' to adamw: no variable of the model has this in its name; one is "
                               "'{}'",
                               word, layout.variables().back().name));
  }
}

} // namespace

shard_cuts cuts_for(const training_options& o, const optimizer_options& shard_rule, const cure_spec& cure) {
  const bool whole = cure.traits().sees_variables || sees_whole_variables(shard_rule) ||
                     (o.parameter_actor && o.parameter_actor->whole_variables);
  return whole ? shard_cuts::between_variables : shard_cuts::within_variables;
}

std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout) {
  const auto* shampoo = std::get_if<shampoo_options>(&rule.rule);
  if (!shampoo) return 0;
  std::uint64_t bytes = 0;
  for (const placed_variable& v : layout.variables())
    if (!v.sparse) bytes += floats_of_matrices(*shampoo, v.dims) * sizeof(float);
  return bytes;
}

void require_whole_variables_fit(const training_options& o, const std::vector<scheduled_policy>& policies) {
  for (const optimizer_options* rule : rules_of(o)) {
    if (!rule || !sees_whole_variables(*rule)) continue;
    if (has_hogwild(policies))
      refuse(*rule,
             "looks at whole variables, and under hogwild workers write weights one by one; take async");
    const auto card = std::ranges::find(o.parameters, device_kind::cuda, &device::kind);
    if (card != o.parameters.end())
      refuse(*rule,
             fmt::format("looks at whole variables on the host, and weights lie on {}; leave one of both out",
                         to_string(*card)));
  }
}

void require_whole_variables_fit(const training_options& o, const parameter_layout& layout) {
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  for (const optimizer_options* rule : rules_of(o)) {
    if (!rule || !sees_whole_variables(*rule)) continue;
    if (table != layout.variables().end() && !updates_rows(*rule))
      refuse(*rule,
             fmt::format("looks at whole variables, and the gradient of table '{}' comes in rows; take "
                         "muon, shampoo or a rule of single weights",
                         table->name));
    require_words_fit(*rule, layout);
  }
}

} // namespace mailgrad
