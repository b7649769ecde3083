#include <mailgrad/optim/own_rule.hpp>

#include <mailgrad/optim/plugin_versions.hpp>
#include <mailgrad/optim/rule_check.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

constexpr const char* entry = "mailgrad_plugin_rule";

/// `who` is the name of the rule in an error.
own_rule checked_rule(const mailgrad_rule& told, std::string_view who) {
  const mailgrad_rule& table = as_of_today(told);
  require_complete(table, who);
  own_rule rule{&table, {}, table.name, {}, {}};
  for (std::size_t i = 0; i < table.setting_count; ++i) rule.settings.push_back(table.settings[i].value);
  require_element_by_element(table, rule.settings, who);
  return rule;
}

} // namespace

own_rule make_own_rule(const mailgrad_rule& table) { return checked_rule(table, "your own rule"); }

own_rule load_plugin(std::string_view path) {
  plugin_library library(path, [path](const std::string& why) { refuse_rule(path, why); });
  own_rule rule = checked_rule(*static_cast<const mailgrad_rule*>(library.table_from(entry)), path);
  rule.label += fmt::format(" ({})", path);
  rule.file = path;
  library.keep();
  return rule;
}

void require_valid(const own_rule& rule) {
  if (!rule.table) throw std::invalid_argument("optimizer: your own rule has no table");
  const std::string who = rule.label.empty() ? "your own rule" : rule.label;
  require_complete(*rule.table, who);
  if (rule.settings.size() != rule.table->setting_count)
    refuse_rule(who, fmt::format("has {} settings, not {}", rule.table->setting_count, rule.settings.size()));
  for (std::size_t i = 0; i < rule.settings.size(); ++i)
    if (!in_range(rule.table->settings[i], rule.settings[i]))
      refuse_rule(who, fmt::format("cannot have {} = {:f}", rule.table->settings[i].name, rule.settings[i]));
  require_element_by_element(*rule.table, rule.settings, who);
}

} // namespace mailgrad
