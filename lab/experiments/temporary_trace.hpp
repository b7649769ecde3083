#pragma once

#include <string>
#include <string_view>

namespace mailgrad::lab {

/// A trace of delays in a file that goes with this object, for a law of `trace:FILE`.
///
/// Errors  std::runtime_error if there is no room for it.
class temporary_trace {
public:
  explicit temporary_trace(std::string_view lines);
  ~temporary_trace();
  temporary_trace(const temporary_trace&) = delete;
  temporary_trace& operator=(const temporary_trace&) = delete;

  const std::string& file() const noexcept { return file_; }

private:
  std::string file_;
};

} // namespace mailgrad::lab
