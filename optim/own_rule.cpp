#include <mailgrad/optim/own_rule.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

constexpr const char* entry = "mailgrad_plugin_rule";

struct closes_library {
  void operator()(void* library) const { dlclose(library); }
};
using library_handle = std::unique_ptr<void, closes_library>;

[[noreturn]] void refuse(std::string_view who, const std::string& why) {
  throw std::invalid_argument("optimizer '" + std::string(who) + "' " + why);
}

bool in_range(const mailgrad_rule_setting& s, double value) { return value >= s.least && value < s.below; }

/// Before its version is known, nothing else of a table may be read.
void require_version(const mailgrad_rule& table, std::string_view who) {
  if (table.interface_version != MAILGRAD_PLUGIN_VERSION)
    refuse(who, "has version " + std::to_string(table.interface_version) +
                    " of the plug-in interface, this mailgrad has version " +
                    std::to_string(MAILGRAD_PLUGIN_VERSION) + ": build it against the headers of this one");
}

void require_complete(const mailgrad_rule& table, std::string_view who) {
  require_version(table, who);
  if (!table.name || !*table.name) refuse(who, "has no name in its table");
  if (!table.update) refuse(who, "has no update function in its table");
  if (table.states > MAILGRAD_PLUGIN_MOST_STATES)
    refuse(who, "keeps " + std::to_string(table.states) + " floats for a weight; " +
                    std::to_string(MAILGRAD_PLUGIN_MOST_STATES) + " are the most");
  if (table.setting_count > 0 && !table.settings) refuse(who, "has no list of its settings");
  for (std::size_t i = 0; i < table.setting_count; ++i) {
    const mailgrad_rule_setting& s = table.settings[i];
    if (!s.name || !*s.name) refuse(who, "has a setting without a name");
    if (!in_range(s, s.value))
      refuse(who, "has a setting '" + std::string(s.name) + "' out of its own range");
  }
}

own_rule with_defaults(const mailgrad_rule& table, std::string label) {
  own_rule rule{&table, {}, std::move(label), {}};
  for (std::size_t i = 0; i < table.setting_count; ++i) rule.settings.push_back(table.settings[i].value);
  return rule;
}

/// What the loader complains of, without the path it begins with.
std::string loader_complaint(const std::string& file) {
  const char* text = dlerror();
  std::string why = text ? text : "unknown error";
  return why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why;
}

} // namespace

own_rule make_own_rule(const mailgrad_rule& table) {
  require_complete(table, "your own rule");
  return with_defaults(table, table.name);
}

bool names_a_plugin(std::string_view word) {
  return word.find('/') != std::string_view::npos || word.ends_with(".so");
}

own_rule load_plugin(std::string_view path) {
  // The loader would look for a bare name among the libraries of the system.
  const std::string file = (path.find('/') == std::string_view::npos ? "./" : "") + std::string(path);
  if (access(file.c_str(), R_OK) != 0)
    refuse(path, "cannot be read: " + std::generic_category().message(errno));
  library_handle library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) refuse(path, "cannot be loaded: " + loader_complaint(file));
  using entry_function = const mailgrad_rule* (*)();
  const auto describe = reinterpret_cast<entry_function>(dlsym(library.get(), entry));
  if (!describe) refuse(path, "is no plug-in: it has no function " + std::string(entry));
  const mailgrad_rule* table = describe();
  if (!table) refuse(path, "is no plug-in: its " + std::string(entry) + " returns nothing");
  require_complete(*table, path);
  own_rule rule = with_defaults(*table, std::string(table->name) + " (" + std::string(path) + ")");
  rule.file = path;
  library.release(); // NOLINT(bugprone-unused-return-value): stays for the rest of the process
  return rule;
}

void require_valid(const own_rule& rule) {
  if (!rule.table) throw std::invalid_argument("optimizer: your own rule has no table");
  const std::string who = rule.label.empty() ? "your own rule" : rule.label;
  require_complete(*rule.table, who);
  if (rule.settings.size() != rule.table->setting_count)
    refuse(who, "has " + std::to_string(rule.table->setting_count) + " settings, not " +
                    std::to_string(rule.settings.size()));
  for (std::size_t i = 0; i < rule.settings.size(); ++i)
    if (!in_range(rule.table->settings[i], rule.settings[i]))
      refuse(who, "cannot have " + std::string(rule.table->settings[i].name) + " = " +
                      std::to_string(rule.settings[i]));
}

} // namespace mailgrad
