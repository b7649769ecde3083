#pragma once

#include <mailgrad/options/spelling.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace mailgrad {

/// Whether a word of an option is the file of a plug-in: it has a slash in it, or ends with ".so".
inline bool names_a_plugin(std::string_view word) {
  return word.find('/') != word.npos || word.ends_with(".so");
}

/// A shared library with a user's rule, policy or cure. The destructor unloads it unless keep() was called.
/// Threads one caller at a time.
class plugin_library {
public:
  /// Is given one line that says why the file is no plug-in; must throw.
  using refusal = std::function<void(const std::string& why)>;
  plugin_library(std::string_view path, refusal refuse);
  /// The SHA-256 of the file when it was loaded, by which processes know that they have the same one.
  const std::string& sha256() const noexcept { return sha256_; }
  bool has(const char* function) const;
  /// The function of this name, which takes nothing and returns a table.
  const void* table_from(const char* function) const;
  /// Keeps the library loaded until the process ends, because its functions stay in use.
  void keep();

private:
  struct closes_library {
    void operator()(void* library) const;
  };

  std::string path_;
  refusal refuse_;
  std::string sha256_;
  std::unique_ptr<void, closes_library> library_;
};

/// The SHA-256 of a file.
/// Errors  std::system_error if it cannot be read.
std::string digest_of_file(const std::string& path);

/// The SHA-256 of the library that was loaded from this path and kept, which the file there need no longer
/// be. Nothing if none was.
/// Threads any.
std::optional<std::string> digest_of_loaded(const std::string& path);

/// Whether this may be the name of a user's policy or cure: letters, digits, '-' and '_'.
inline bool is_custom_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

/// What is chosen by name: policies or cures.
struct choice_kind {
  std::string_view name, names; ///< "policy", "policies"
  std::string_view none;        ///< the word for no choice, if there is one
  const char* function;         ///< by which a plug-in tells its entry
  std::uint32_t version;        ///< of the interface for users' own
};

/// Mailgrad's policies or cures, and users' own, by the word that an option uses: a name, or the file of a
/// plug-in. An `Own` is constructed from that word and an entry, and keeps the texts of its member `known`.
///
/// An object is never removed or moved, so a pointer to it stays valid.
/// Errors  std::invalid_argument in one line: an entry that cannot be used, a word that another one has, or
///         one that stands for nothing.
/// Threads any.
template <class Known, class Own, class Entry>
class choice_registry {
public:
  choice_registry(const choice_kind& kind, std::span<const Known> ours) : kind_(kind), ours_(ours) {}
  /// Null if there is none, as for a plug-in that is not loaded.
  const Known* find(std::string_view word) const {
    if (is_ours(word)) return &*std::ranges::find(ours_, word, &Known::name);
    const std::lock_guard guard(mutex_);
    return find_own(word);
  }
  /// The same, where the file of a plug-in is loaded.
  const Known& find_or_load(std::string_view word) {
    if (const Known* known = find(word)) return *known;
    if (names_a_plugin(word)) return load(word);
    throw std::invalid_argument(std::string(kind_.name) + " '" + std::string(word) + "' is unknown; " +
                                suggestion(word, names()));
  }

  std::vector<std::string_view> names() const {
    std::vector<std::string_view> all;
    if (!kind_.none.empty()) all.push_back(kind_.none);
    for (const Known& k : ours_) all.push_back(k.name);
    const std::lock_guard guard(mutex_);
    for (const Own& o : own_) all.push_back(o.known.name);
    return all;
  }
  /// Under its own name.
  void add(const Entry& entry) {
    require_usable(entry.name, entry);
    if (entry.name == kind_.none || is_ours(entry.name))
      refuse(entry.name, "is one of Mailgrad's; give yours another name");
    add(entry.name, entry);
  }
  /// The same entry may be added twice.
  const Known& add(std::string_view word, const Entry& entry) {
    require_usable(word, entry);
    const std::lock_guard guard(mutex_);
    const Known* const before = find_own(word);
    if (before && before->make != entry.make)
      refuse(word, "another " + std::string(kind_.name) + " of your own has this name");
    return before ? *before : own_.emplace_back(word, entry).known;
  }

private:
  bool is_ours(std::string_view word) const {
    return std::ranges::find(ours_, word, &Known::name) != ours_.end();
  }
  const Known* find_own(std::string_view word) const {
    const auto found = std::ranges::find_if(own_, [=](const Own& o) { return o.known.name == word; });
    return found == own_.end() ? nullptr : &found->known;
  }
  [[noreturn]] void refuse(std::string_view word, const std::string& why) const {
    throw std::invalid_argument(std::string(kind_.name) + " '" + std::string(word) + "': " + why);
  }
  void require_usable(std::string_view word, const Entry& entry) const {
    if (entry.interface_version != kind_.version)
      refuse(word, "has version " + std::to_string(entry.interface_version) + " of the interface for " +
                       std::string(kind_.names) + ", this mailgrad has version " +
                       std::to_string(kind_.version));
    if (!is_custom_name(entry.name))
      refuse(word, "the name of a " + std::string(kind_.name) + " is of letters, digits, '-' and '_'");
    if (!Own::can_be_made(entry)) refuse(word, "its entry says not how it is made");
  }
  const Known& load(std::string_view file) {
    plugin_library library(file, [&](const std::string& why) { refuse(file, why); });
    const Known& added = add(file, *static_cast<const Entry*>(library.table_from(kind_.function)));
    library.keep();
    return added;
  }

  choice_kind kind_;
  std::span<const Known> ours_;
  mutable std::mutex mutex_; ///< guards own_
  std::deque<Own> own_;
};

} // namespace mailgrad
