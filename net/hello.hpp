#pragma once

#include <mailgrad/net/features.hpp>
#include <mailgrad/net/role.hpp>
#include <mailgrad/net/timing.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// How a session begins. Who connects says `hello`, and the server answers with `welcome` or `refusal`. Nobody
// is in before the welcome.

namespace mailgrad::net {

/// Which of the two connections of a session: small words, or the bodies of tensors.
enum class plane : std::uint8_t { control = 0, bulk = 1 };
std::string_view to_string(plane p) noexcept;

/// What a server did not accept. The numbers stand on the wire.
enum class refusal_code : std::uint8_t {
  malformed = 1,   ///< the first frame is no hello
  protocol = 2,    ///< another version of the protocol
  run = 3,         ///< another run
  role = 4,        ///< no such role, or the server takes none of it
  number = 5,      ///< no such number, or none is free
  incarnation = 6, ///< an incarnation that is no more
  model = 7,       ///< another model
  data = 8,        ///< other data
  wire = 9,        ///< a form of numbers on the wire that the server does not read
  build = 10,      ///< another build, where weights shall be the same to the bit
  session = 11,    ///< a bulk connection of a session that is not there
  late = 12,       ///< no hello within its time
  full = 13,       ///< the server has as many connections as it takes
  keys = 14,       ///< other keys than the server's, or none
  user = 15,       ///< another user of the machine, where the server takes its own alone
  devices = 16,    ///< a worker with more or fewer devices than each worker of the run has
};
std::string_view to_string(refusal_code c) noexcept;

/// Why a server does not take a peer in, in words that name what it expected and what it found.
struct refusal {
  refusal_code code = refusal_code::malformed;
  std::string expected;
  std::string found;

  /// "model: expected 12ab, found 34cd"
  std::string words() const;

  friend bool operator==(const refusal&, const refusal&) = default;
};

/// The first frame of a connection.
struct hello {
  features says{}; ///< may hold more than what stands below, which is taken from it
  role part = role::worker;
  std::optional<std::uint32_t> number{}; ///< which worker it wants to be; none: whichever is free
  std::uint32_t incarnation = 0;         ///< 0: whichever comes next
  plane connection = plane::control;
  std::uint64_t session = 0; ///< of a bulk connection: the one that the welcome named
};

/// All that is known of a peer, as records.
features to_features(const hello& h);

/// Errors  protocol_error for a text that is none of the allowed ones.
hello to_hello(features says);

/// What the server makes of a hello.
///
/// Units   messages and bodies: how many each side may have under way at first.
struct welcome {
  std::uint64_t run = 0;
  std::uint64_t session = 0;
  member you{};
  std::uint32_t incarnation = 1;
  timing times{};
  std::uint32_t messages = 64;
  std::uint32_t bodies = 4;           ///< of the server
  std::uint32_t bodies_of_client = 4; ///< 0: the server will say when there may be some
  std::uint64_t most_body_bytes = std::uint64_t{1} << 30;
  std::uint32_t devices = 1; ///< that each worker of the run brings

  friend bool operator==(const welcome&, const welcome&) = default;
};

bytes encode(const welcome& w);
/// Errors  protocol_error.
welcome decode_welcome(byte_view payload);

bytes encode(const refusal& r);
/// Errors  protocol_error.
refusal decode_refusal(byte_view payload);

/// What a server demands of a peer in one record.
struct demand {
  std::string name;                  ///< of the feature
  std::vector<std::string> accepted; ///< any of these
  refusal_code code = refusal_code::malformed;
  bool optional = false; ///< whether a peer may say nothing of it, since it takes what the server has
};

/// Compares what a server expects with what a peer says, in the order of the demands. Nothing, if all is
/// well.
std::optional<refusal> compare(const std::vector<demand>& expected, const features& says);

/// The demands of a server with these features: the same protocol and build, a role among `roles`, a wire
/// format among `wires`. Run, model, data and devices are compared if the peer names them. A feature that the
/// server does not have is not demanded.
std::vector<demand> demands_of(const features& server, const std::vector<role>& roles,
                               const std::vector<std::string>& wires);

} // namespace mailgrad::net
