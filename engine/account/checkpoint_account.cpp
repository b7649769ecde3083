#include <mailgrad/engine/account/checkpoint_account.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

std::string early_end_in_words(const recording_account& r) {
  std::string text = fmt::format("ended early, after {:.1f} s with {}: {}", r.seconds,
                                 byte_count(r.bytes).text(), r.failure);
  if (r.removed) text += "; it was removed to make room for other files";
  if (!r.kept.empty() && r.kept_bytes == r.bytes) text += fmt::format("; all of that is in '{}'", r.kept);
  if (!r.kept.empty() && r.kept_bytes < r.bytes)
    text += fmt::format("; its first {} are in '{}', the rest made room for other files",
                        byte_count(r.kept_bytes).text(), r.kept);
  return text;
}

std::string recording_in_words(const recording_account& r) {
  return fmt::format("recording '{}' {}", r.file, early_end_in_words(r));
}

} // namespace mailgrad
