#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Whether a word of an option is the file of a plug-in: it has a slash in it, or ends with ".so".
bool names_a_plugin(std::string_view word);

/// A shared library with a user's rule, policy or cure. The destructor unloads it unless keep() was called.
///
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
///
/// Errors  std::system_error if it cannot be read.
std::string digest_of_file(const std::string& path);

/// The SHA-256 of the library that was loaded from this path and kept, which the file there need no longer
/// be. Nothing if none was.
///
/// Threads any.
std::optional<std::string> digest_of_loaded(const std::string& path);

/// A registry of users' own policies or cures, by the word that an option uses: a name, or the file of a
/// plug-in. An `Own` is constructed from that word and an entry. It has a member `word`, and a member
/// is(entry) that tells whether it was made from that entry.
///
/// An object is never removed or moved, so a pointer to it stays valid.
/// Threads any.
template <class Own>
class custom_entries {
public:
  /// Null if no entry has this name.
  const Own* find(std::string_view word) const {
    const std::lock_guard guard(mutex_);
    return find_unlocked(word);
  }

  /// The same entry may be added twice.
  ///
  /// Errors  std::invalid_argument: another entry has this word.
  template <class Entry>
  const Own& add(std::string_view word, const Entry& entry, std::string_view kind) {
    const std::lock_guard guard(mutex_);
    if (const Own* before = find_unlocked(word)) {
      if (!before->is(entry))
        throw std::invalid_argument(std::string(kind) + " '" + std::string(word) + "': another " +
                                    std::string(kind) + " of your own has this name");
      return *before;
    }
    return all_.emplace_back(word, entry);
  }

  std::vector<std::string_view> words() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::string_view> all;
    for (const Own& o : all_) all.push_back(o.word);
    return all;
  }

private:
  const Own* find_unlocked(std::string_view word) const {
    const auto found = std::ranges::find(all_, word, &Own::word);
    return found == all_.end() ? nullptr : &*found;
  }

  mutable std::mutex mutex_; ///< guards all_
  std::deque<Own> all_;
};

/// Whether this may be the name of a user's policy or cure: letters, digits, '-' and '_'.
inline bool is_custom_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

} // namespace mailgrad
