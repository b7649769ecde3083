#include <mailgrad/optim/plugin_versions.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>

namespace mailgrad {

namespace {

/// The bytes of a table of this version; 0 if it has all that this one has, or nobody knows.
std::size_t bytes_of_version(std::uint32_t version) {
  if (version == 1) return offsetof(mailgrad_rule, prepares);
  if (version == 2) return offsetof(mailgrad_rule, whole_variables);
  return 0;
}

struct copied_tables {
  std::mutex mutex;
  std::deque<mailgrad_rule> all;
};

copied_tables& copies() {
  static copied_tables made;
  return made;
}

} // namespace

/// A step has grown at its end alone, so a rule of an older version finds in it what it knows. Copies are
/// told apart by what they hold: a library that was refused is unloaded, and another may come to lie in its
/// place.
const mailgrad_rule& as_of_today(const mailgrad_rule& table) {
  const std::size_t bytes = bytes_of_version(table.interface_version);
  if (bytes == 0) return table;
  mailgrad_rule copy{};
  std::memcpy(&copy, &table, bytes);
  copy.interface_version = MAILGRAD_PLUGIN_VERSION;
  const std::lock_guard guard(copies().mutex);
  const auto known = std::ranges::find_if(
      copies().all, [&](const mailgrad_rule& c) { return std::memcmp(&c, &copy, sizeof(copy)) == 0; });
  return known == copies().all.end() ? copies().all.emplace_back(copy) : *known;
}

} // namespace mailgrad
