#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

/// "mlp:hidden=512x256,activation=relu", as --model has it: each setting is taken by its key.
///
///   model_settings s("gpt:layers=4");
///   const std::size_t layers = s.take_number("layers", 2, 1, 100); // 4
///   s.require_nothing_left();
///
/// Errors  std::invalid_argument in one line that quotes the whole text, and names the key, what its value
///         must be, or the nearest right key.
/// Threads one caller at a time; the text must outlive it.
class model_settings {
public:
  explicit model_settings(std::string_view text);

  /// What stands before the colon.
  std::string_view name() const noexcept { return name_; }

  // Each gives what the text has under `key`, or `otherwise` if it does not name it.

  /// A whole number, least <= number <= most.
  std::size_t take_number(std::string_view key, std::size_t otherwise, std::size_t least, std::size_t most);
  /// A share, 0 <= rate < 1.
  float take_rate(std::string_view key, float otherwise);
  /// The place of a word in `words`.
  std::size_t take_word(std::string_view key, std::size_t otherwise, std::span<const std::string_view> words);
  /// "yes" or "no".
  bool take_yes(std::string_view key, bool otherwise);
  /// "512x256": numbers from 1 to `most`; may be empty.
  std::vector<std::size_t> take_widths(std::string_view key, std::vector<std::size_t> otherwise,
                                       std::size_t most);

  /// After all are taken.
  void require_nothing_left() const;

  /// For what a model itself finds wrong with its settings.
  [[noreturn]] void fail(std::string_view why) const;

private:
  struct setting {
    std::string_view key;
    std::string_view value;
    bool taken = false;
  };

  setting* find(std::string_view key);
  [[noreturn]] void refuse(const setting& s, std::string_view must_be) const;

  std::string_view text_;
  std::string_view name_;
  std::vector<setting> all_;
  std::vector<std::string_view> known_;
};

} // namespace mailgrad
