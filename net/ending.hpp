#pragma once

#include <mailgrad/net/hello.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace mailgrad::net {

/// Why a session ended. The numbers are those of a goodbye on the wire, so none is ever given away again.
enum class end_reason : std::uint8_t {
  left = 1,         ///< one side said goodbye of its own will
  silent = 2,       ///< no byte came for longer than the time that the server dictates
  lost = 3,         ///< the connection closed without a goodbye
  malformed = 4,    ///< bytes came that are no frame, or a frame that has no place here
  out_of_order = 5, ///< a frame is missing: a higher sequence number came than the next one
  no_credit = 6,    ///< the peer sent more than it was allowed to
  superseded = 7,   ///< a later incarnation of the same member took its place
  refused = 8,      ///< the server did not take the peer in
  late = 9,         ///< the session was not complete within the time for a hello
  failed = 10,      ///< one side could not go on with its work
  absent = 11,      ///< nobody listens where the server should; a client alone finds it, so it is on no wire
  run_failed = 12,  ///< the server's run has failed, in which the peer had done its part
};

std::string_view to_string(end_reason r) noexcept;

/// Whether either side had done all that it had to do.
constexpr bool is_in_order(end_reason r) noexcept {
  return r == end_reason::left || r == end_reason::run_failed;
}

/// Whether a goodbye may name the reason of this number.
bool is_end_reason(std::uint8_t number) noexcept;

/// How a session ended: the reason, and one line for the user with what was expected and what was found.
struct ending {
  end_reason reason = end_reason::left;
  std::string words;
  std::optional<refusal_code> refused_for{}; ///< of a refusal

  friend bool operator==(const ending&, const ending&) = default;
};

/// A peer broke the protocol. `what()` is one line with what was expected and what was found.
class protocol_error : public std::runtime_error {
public:
  explicit protocol_error(const std::string& words, end_reason reason = end_reason::malformed)
      : std::runtime_error(words), reason_(reason) {}
  /// Words by a format, for end_reason::malformed; another reason takes whole words.
  template <class... Parts>
  requires(sizeof...(Parts) > 0) explicit protocol_error(fmt::format_string<Parts...> words, Parts&&... parts)
      : protocol_error(fmt::format(words, std::forward<Parts>(parts)...)) {}

  end_reason reason() const noexcept { return reason_; }

private:
  end_reason reason_;
};

/// The advice for a client that was refused, with a colon before it: ": give --keys". It is empty if the
/// words of the refusal say all.
std::string advice_on(const refusal& why);

} // namespace mailgrad::net
