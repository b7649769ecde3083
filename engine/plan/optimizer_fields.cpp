#include <mailgrad/engine/plan/optimizer_fields.hpp>

#include <mailgrad/engine/plan/known_plugins.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <variant>

namespace mailgrad {

namespace {

void keep(archive&, sgd_options&) {}
void keep(archive& a, momentum_options& o) { a.field("momentum", o.momentum); }
void keep(archive& a, nesterov_options& o) { a.field("momentum", o.momentum); }
void keep(archive& a, adagrad_options& o) {
  a.field("epsilon", o.epsilon);
  a.field("initial_sum", o.initial_sum);
}
void keep(archive& a, rmsprop_options& o) {
  a.field("alpha", o.alpha);
  a.field("epsilon", o.epsilon);
}
void keep(archive& a, adam_options& o) {
  a.field("beta1", o.beta1);
  a.field("beta2", o.beta2);
  a.field("epsilon", o.epsilon);
}
void keep(archive& a, delayed_nesterov_options& o) {
  a.field("momentum", o.momentum);
  a.field("period", o.period);
  a.field("early", o.early);
}
void keep(archive& a, lars_options& o) {
  a.field("momentum", o.momentum);
  a.field("trust", o.trust);
}
void keep(archive& a, lamb_options& o) {
  a.field("beta1", o.beta1);
  a.field("beta2", o.beta2);
  a.field("epsilon", o.epsilon);
}
void keep(archive& a, muon_options& o) {
  a.field("momentum", o.momentum);
  a.field("nesterov", o.nesterov);
  a.field("adamw", o.adamw);
  a.field("adamw_rate", o.adamw_rate);
  a.field("beta1", o.beta1);
  a.field("beta2", o.beta2);
  a.field("epsilon", o.epsilon);
}
void keep(archive& a, shampoo_options& o) {
  a.field("epsilon", o.epsilon);
  a.field("every", o.every);
  a.field("largest", o.largest);
}
/// The table stays where it is. Who reads the rule completes it with one of its own (known_plugins).
void keep(archive& a, own_rule& rule) {
  if (!a.reads()) {
    if (!rule.table)
      throw std::invalid_argument(fmt::format("optimizer '{}': your own rule has no table", rule.label));
    rule.label = rule.table->name;
    if (!rule.file.empty()) rule.sha256 = plugin_digest(rule.file);
  }
  a.field("name", rule.label);
  a.field("sha256", rule.sha256);
  a.field("settings", rule.settings);
}

constexpr const char* own_name = "of the user's own";

/// The alternative of that name with its defaults.
template <std::size_t I = 0>
void choose(optimizer_options& o, const std::string& name) {
  using rules = decltype(o.rule);
  if constexpr (I + 1 >= std::variant_size_v<rules>) { // the last one is own_rule
    throw archive_error(fmt::format("rule: there is none of the name '{}'", name));
  } else {
    if (std::variant_alternative_t<I, rules>::name == name)
      o.rule.template emplace<I>();
    else
      choose<I + 1>(o, name);
  }
}

} // namespace

void keep_optimizer(archive& a, std::string_view name, optimizer_options& o) {
  a.group(name, [&] {
    a.version(1);
    std::string rule(std::holds_alternative<own_rule>(o.rule) ? own_name : mailgrad::name(o));
    a.field("rule", rule);
    if (a.reads() && rule == own_name)
      o.rule = own_rule{};
    else if (a.reads())
      choose(o, rule);
    std::visit([&](auto& r) { keep(a, r); }, o.rule);
    a.field("learning_rate", o.learning_rate);
    std::string schedule = to_string(o.schedule);
    a.field("schedule", schedule);
    a.field("l2", o.l2);
    a.field("weight_decay", o.weight_decay);
    a.field("clip_norm", o.clip_norm);
    if (!a.reads()) return;
    try {
      o.schedule = parse_schedule(schedule);
      if (rule != own_name) require_valid(o);
    } catch (const std::invalid_argument& e) {
      throw archive_error(e.what());
    }
  });
}

} // namespace mailgrad
