#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace mailgrad {

/// Takes whole numbers from `least` on, and says so in one line where it does not.
inline CLI::Validator whole_number(std::uint64_t least) {
  return {[least](const std::string& word) {
            std::uint64_t n = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
            const bool whole = error == std::errc{} && end == word.data() + word.size();
            return whole && n >= least
                       ? std::string()
                       : "must be a whole number from " + std::to_string(least) + " on, not '" + word + "'";
          },
          least > 0 ? "FROM 1 ON" : ""};
}

} // namespace mailgrad
