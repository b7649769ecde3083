#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What a number may not reach that may be as large as it likes; see settings::take_number().
inline constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Parses "name:key=value,key=value", the form of an optimiser, a schedule or a model: each setting is read
/// by its key.
///
///   settings s("model", "gpt:layers=4");
///   const std::uint64_t layers = s.take_whole("layers", 2, 1, 100); // 4
///   s.require_nothing_left();
///
/// Errors  std::invalid_argument in one line that says what was being read, quotes the whole text, and names
///         the key and what its value must be, or the nearest right key.
/// Threads one caller at a time; the text must outlive it.
class settings {
public:
  /// `what` is being read, such as "model".
  settings(std::string_view what, std::string_view text);

  /// The text before the colon.
  std::string_view name() const noexcept { return name_; }

  // Each returns the value of `key`, or `otherwise` if the text does not name the key.

  /// A whole number, least <= number <= most.
  std::uint64_t take_whole(std::string_view key, std::uint64_t otherwise, std::uint64_t least = 0,
                           std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  /// A number, least <= number < below.
  double take_number(std::string_view key, double otherwise, double least, double below);
  /// A share, 0 <= rate < 1, also as a float.
  float take_rate(std::string_view key, float otherwise);
  /// The text as it is written; may be empty.
  std::string_view take_text(std::string_view key, std::string_view otherwise);
  /// The index of a word in `words`.
  std::size_t take_word(std::string_view key, std::size_t otherwise, std::span<const std::string_view> words);
  /// "yes" or "no".
  bool take_yes(std::string_view key, bool otherwise);
  /// "512x256": numbers from 1 to `most`; may be empty.
  std::vector<std::size_t> take_widths(std::string_view key, std::vector<std::size_t> otherwise,
                                       std::size_t most);

  /// Refuses a key that many users expect here, with a text that says what to write instead.
  void refuse(std::string_view key, std::string_view why) const;

  /// Refuses any setting that no call has read; call it last.
  void require_nothing_left() const;

  /// The keys that the calls have read or would have read, in that order.
  std::span<const std::string_view> known() const noexcept { return known_; }

  /// Reports a fault that the caller found in the settings.
  [[noreturn]] void fail(std::string_view why) const;

private:
  struct setting {
    std::string_view key;
    std::string_view value;
    bool taken = false;
  };

  const setting* find(std::string_view key);
  [[noreturn]] void refuse_value(const setting& s, std::string_view must_be) const;

  std::string_view what_;
  std::string_view text_;
  std::string_view name_;
  std::vector<setting> all_;
  std::vector<std::string_view> known_;
};

} // namespace mailgrad
