#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// "name:key=value,key=value", as an option of the command line has it: each setting is taken by its key.
///
/// Errors  std::invalid_argument in one line that says what was being read and names the key, the value and
///         its range, or the nearest right key.
/// Threads one caller at a time; the text must outlive it.
class settings {
public:
  settings(std::string_view what, std::string_view text);

  std::string_view name() const noexcept { return name_; }

  /// Sets `value` if the text has `key`; it must be a number in [low, high).
  void take(std::string_view key, double& value, double low, double high);
  void take(std::string_view key, std::uint64_t& value);

  /// Says what to write in the place of a key that many expect here, unless it was taken.
  void refuse(std::string_view key, std::string_view why) const;

  /// After all are taken.
  void require_nothing_left() const;

private:
  struct setting {
    std::string_view key;
    std::string_view value;
    bool taken = false;
  };

  setting* find(std::string_view key);
  [[noreturn]] void fail(const std::string& why) const;

  std::string_view what_;
  std::string_view name_;
  std::vector<setting> all_;
  std::vector<std::string_view> known_;
};

} // namespace mailgrad
