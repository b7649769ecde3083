#pragma once

#include <mailgrad/tensor/error.hpp>

#include <string>
#include <string_view>
#include <system_error>

namespace mailgrad {

/// Bytes that came from elsewhere do not hold what their format promises; `what()` is one line for the user.
class wire_error : public std::system_error {
public:
  explicit wire_error(std::string_view what)
      : std::system_error(world_errc::malformed_message), text_(what) {}
  const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_; ///< without the category's own words, which std::system_error would append
};

} // namespace mailgrad
