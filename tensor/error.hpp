#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace mailgrad {

/// A number of bytes in the largest unit that leaves no zero in front: "4.0 GiB", "1.5 MiB", "64 bytes". The
/// text is built without the heap, because messages about exhausted memory use it.
class byte_count {
public:
  explicit byte_count(std::uint64_t count) noexcept {
    constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
    auto figure = static_cast<double>(count);
    std::snprintf(text_.data(), text_.size(), "%.0f bytes", figure);
    for (const char* unit : units) {
      if (figure < 1024) return;
      figure /= 1024;
      std::snprintf(text_.data(), text_.size(), "%.1f %s", figure, unit);
    }
  }

  const char* text() const noexcept { return text_.data(); }

private:
  std::array<char, 32> text_{};
};

/// The caller combined shapes that do not fit. Thrown before anything has changed.
class shape_error : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
  /// "gemm: 2x3 against 4x5"
  shape_error(std::string_view operation, const shape& a, const shape& b)
      : std::invalid_argument(std::string(operation) + ": " + to_string(a) + " against " + to_string(b)) {}
};

/// Failures whose cause lies outside the program.
enum class world_errc {
  no_such_device = 1, ///< the machine or this build lacks the device
  device_failure,     ///< the device's driver reported an error
  malformed_file,     ///< a file does not hold what its format promises
  malformed_message,  ///< a message does not hold what its format promises
  out_of_memory,      ///< a device's memory does not suffice; the device works on
  wrong_place,        ///< something lies on another device than who was given it reads from
};

} // namespace mailgrad

template <>
struct std::is_error_code_enum<mailgrad::world_errc> : std::true_type {};

namespace mailgrad {

const std::error_category& world_category() noexcept;
inline std::error_code make_error_code(world_errc e) noexcept {
  return {static_cast<int>(e), world_category()};
}

/// A device is missing or has failed. `what()` is one line for the user.
class device_error : public std::system_error {
public:
  device_error(world_errc code, std::string_view what) : std::system_error(code), text_(what) {}
  const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_; ///< kept here because std::system_error would append the category's own words
};

/// Memory of a device does not suffice, or memory of the host that the device can reach.
class out_of_memory : public device_error {
public:
  explicit out_of_memory(std::string_view what) : device_error(world_errc::out_of_memory, what) {}
  /// `wanted_for`: what the memory was to be for.
  out_of_memory(const out_of_memory& e, const std::string& wanted_for)
      : device_error(world_errc::out_of_memory, std::string(e.what()) + ", for " + wanted_for), named_(true) {
  }
  /// Whether it says what the memory was to be for.
  bool is_named() const noexcept { return named_; }

private:
  bool named_ = false;
};

/// Returns what `allocate` does. If memory is lacking, the error says in the words of `wanted_for` what for,
/// unless it says so already.
template <class Words, class Allocate>
decltype(auto) naming_memory(const Words& wanted_for, const Allocate& allocate) {
  try {
    return allocate();
  } catch (const out_of_memory& e) {
    if (e.is_named()) throw;
    if constexpr (std::is_invocable_v<Words>)
      throw out_of_memory(e, wanted_for());
    else
      throw out_of_memory(e, std::string(wanted_for));
  }
}

} // namespace mailgrad
