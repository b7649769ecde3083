#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/cures/custom_cure.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/custom_policy.hpp>

namespace mailgrad {

/// The SHA-256 of a plug-in's file, by which processes know that they have the same one; that of the file as
/// it was when it was loaded, if it is.
/// Errors  std::system_error if it cannot be read.
std::string plugin_digest(const std::string& file);

/// A plug-in with a policy or a cure, as the server of a run tells of it.
struct named_plugin {
  std::string word; ///< by which policy and cure of the run name it: its file there
  std::string sha256;

  friend bool operator==(const named_plugin&, const named_plugin&) = default;
  void keep(archive& a) {
    a.field("word", word);
    a.field("sha256", sha256);
  }
};

/// What a process brings of its own to the runs of other processes: plug-ins that its user has named, and
/// update rules that are compiled into its program. A run that needs others is refused by name, since nothing
/// that a peer says makes a process load a library.
/// Threads one owner at a time.
class known_plugins {
public:
  /// Loads a plug-in with a rule, a policy or a cure, or several of them.
  /// Errors  std::invalid_argument in one line: no file, library or plug-in, or another version.
  void load(const std::string& file);
  /// A rule that is compiled into the program. It is known by the name in its table.
  void add(custom_rule rule) { rules_.push_back({"", std::move(rule)}); }
  /// Lets policies and cures be named by this word of another process, if the same plug-in is here.
  /// Errors  std::invalid_argument that names the plug-in and what is expected.
  void take(const named_plugin& wanted) const;
  /// Completes a rule that another process has told, of which name, settings and SHA-256 are known.
  /// Errors  as take(); those of require_valid().
  void complete(optimizer_options& told) const;

private:
  struct known_rule {
    std::string sha256; ///< of its file; empty if it is compiled in
    custom_rule rule;
  };
  struct known_library {
    std::string sha256;
    const custom_policy_entry* policy = nullptr; ///< null if it has none
    const custom_cure_entry* cure = nullptr;
  };

  std::vector<known_rule> rules_;
  std::vector<known_library> libraries_;
};

} // namespace mailgrad
