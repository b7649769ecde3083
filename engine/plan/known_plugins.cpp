#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/optim/plugin_library.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr const char* rule_function = "mailgrad_plugin_rule";
constexpr const char* policy_function = "mailgrad_plugin_policy";
constexpr const char* cure_function = "mailgrad_plugin_cure";

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", what, why));
}

} // namespace

std::string plugin_digest(const std::string& file) {
  if (auto loaded = digest_of_loaded(file)) return *std::move(loaded);
  return digest_of_file(file);
}

/// The entries are kept, since the file may be another one by the time a policy or a cure is made.
void known_plugins::load(const std::string& file) {
  const std::string what = fmt::format("plug-in '{}'", file);
  plugin_library library(file, [&what](const std::string& why) { refuse(what, why); });
  known_library found{library.sha256()};
  if (library.has(policy_function))
    found.policy = static_cast<const custom_policy_entry*>(library.table_from(policy_function));
  if (library.has(cure_function))
    found.cure = static_cast<const custom_cure_entry*>(library.table_from(cure_function));
  const bool has_rule = library.has(rule_function);
  if (!has_rule && !found.policy && !found.cure)
    refuse(what, fmt::format("is none: it has no function {}, {} or {}", rule_function, policy_function,
                             cure_function));
  library.keep();
  if (found.policy) register_policy(*found.policy, file);
  if (found.cure) register_cure(*found.cure, file);
  if (has_rule) rules_.push_back({found.sha256, load_plugin(file)});
  libraries_.push_back(std::move(found));
}

void known_plugins::take(const named_plugin& wanted) const {
  const std::string what = fmt::format("plug-in '{}' of the run", wanted.word);
  if (!names_a_plugin(wanted.word)) refuse(what, "this is no file of a plug-in");
  const auto same = std::ranges::find(libraries_, wanted.sha256, &known_library::sha256);
  if (same == libraries_.end() || (!same->policy && !same->cure))
    refuse(what,
           fmt::format("expected one with a policy or a cure and SHA-256 {} here, found none; name it by "
                       "--plugin when this process is started",
                       wanted.sha256));
  if (same->policy) register_policy(*same->policy, wanted.word);
  if (same->cure) register_cure(*same->cure, wanted.word);
}

void known_plugins::complete(optimizer_options& told) const {
  auto* own = std::get_if<custom_rule>(&told.rule);
  if (!own || own->table) return;
  const std::string name = own->label;
  const auto same = std::ranges::find_if(rules_, [&](const known_rule& k) {
    return k.sha256 == own->sha256 && k.rule.table && k.rule.table->name == name;
  });
  if (same == rules_.end())
    refuse(
        fmt::format("optimizer '{}' of the run", name),
        own->sha256.empty()
            ? "expected a program with this update rule of its own, found none; start one that adds it to "
              "the plug-ins it knows"
            : fmt::format("expected a plug-in with it and SHA-256 {} here, found none; name it by --plugin "
                          "when this process is started",
                          own->sha256));
  own->table = same->rule.table;
  require_valid(told);
}

} // namespace mailgrad
