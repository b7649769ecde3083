#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {
namespace {

class world_category_type : public std::error_category {
public:
  const char* name() const noexcept override { return "mailgrad"; }

  std::string message(int code) const override {
    constexpr std::array words{"no such device",    "device failure", "malformed file",
                               "malformed message", "out of memory",  "wrong place"}; // from 1 on
    static_assert(words.size() == static_cast<std::size_t>(world_errc::wrong_place));
    if (code < 1 || code > static_cast<int>(words.size())) return fmt::format("unknown error {}", code);
    return words[static_cast<std::size_t>(code - 1)];
  }
};

} // namespace

const std::error_category& world_category() noexcept {
  static const world_category_type category;
  return category;
}

} // namespace mailgrad
