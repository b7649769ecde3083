#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// Replaces a name in the text of an option, wherever it stands whole: "./a.so" in "async, ./a.so:2@100", but
/// not in "lib/a.so". The characters around a whole name are spaces, and what the grammars of options put
/// between names.
inline std::string with_name_replaced(std::string text, std::string_view from, std::string_view to) {
  constexpr std::string_view around = " ,:@;='\"()";
  const auto ends = [&](std::size_t at) { return at >= text.size() || around.find(text[at]) != around.npos; };
  for (std::size_t at = text.find(from); !from.empty() && at != text.npos;) {
    const bool whole = (at == 0 || ends(at - 1)) && ends(at + from.size());
    if (whole) text.replace(at, from.size(), to);
    at = text.find(from, at + (whole ? to.size() : 1));
  }
  return text;
}

} // namespace mailgrad
