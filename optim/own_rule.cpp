#include <mailgrad/optim/own_rule.hpp>

#include <mailgrad/optim/rule_check.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
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

/// `who` is what an error calls it.
own_rule checked_rule(const mailgrad_rule& table, std::string_view who) {
  require_complete(table, who);
  own_rule rule{&table, {}, table.name, {}};
  for (std::size_t i = 0; i < table.setting_count; ++i) rule.settings.push_back(table.settings[i].value);
  require_element_by_element(table, rule.settings, who);
  return rule;
}

/// What the loader complains of, without the path it begins with.
std::string loader_complaint(const std::string& file) {
  const char* text = dlerror();
  std::string why = text ? text : "unknown error";
  return why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why;
}

} // namespace

own_rule make_own_rule(const mailgrad_rule& table) { return checked_rule(table, "your own rule"); }

bool names_a_plugin(std::string_view word) {
  return word.find('/') != std::string_view::npos || word.ends_with(".so");
}

own_rule load_plugin(std::string_view path) {
  // The loader would look for a bare name among the libraries of the system.
  const std::string file = (path.find('/') == std::string_view::npos ? "./" : "") + std::string(path);
  if (access(file.c_str(), R_OK) != 0)
    refuse_rule(path, "cannot be read: " + std::generic_category().message(errno));
  library_handle library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) refuse_rule(path, "cannot be loaded: " + loader_complaint(file));
  using entry_function = const mailgrad_rule* (*)();
  const auto describe = reinterpret_cast<entry_function>(dlsym(library.get(), entry));
  if (!describe) refuse_rule(path, "is no plug-in: it has no function " + std::string(entry));
  const mailgrad_rule* table = describe();
  if (!table) refuse_rule(path, "is no plug-in: its " + std::string(entry) + " returns nothing");
  own_rule rule = checked_rule(*table, path);
  rule.label += " (" + std::string(path) + ")";
  rule.file = path;
  library.release(); // NOLINT(bugprone-unused-return-value): stays for the rest of the process
  return rule;
}

void require_valid(const own_rule& rule) {
  if (!rule.table) throw std::invalid_argument("optimizer: your own rule has no table");
  const std::string who = rule.label.empty() ? "your own rule" : rule.label;
  require_complete(*rule.table, who);
  if (rule.settings.size() != rule.table->setting_count)
    refuse_rule(who, "has " + std::to_string(rule.table->setting_count) + " settings, not " +
                         std::to_string(rule.settings.size()));
  for (std::size_t i = 0; i < rule.settings.size(); ++i)
    if (!in_range(rule.table->settings[i], rule.settings[i]))
      refuse_rule(who, "cannot have " + std::string(rule.table->settings[i].name) + " = " +
                           std::to_string(rule.settings[i]));
  require_element_by_element(*rule.table, rule.settings, who);
}

} // namespace mailgrad
