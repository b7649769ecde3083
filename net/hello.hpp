#pragma once

#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/timing.hpp>

#include <compare>
#include <map>
#include <optional>

// How a session begins. Who connects says `hello`, and the server answers with `welcome` or `refusal`. Nobody
// is in before the welcome.

namespace mailgrad::net {

/// What a process is to the run.
enum class role : std::uint8_t { server, worker, shard, watcher };

/// What people are told: "worker", "parameter host"
std::string_view to_string(role r) noexcept;

/// A process of a run among those of its role, numbered from 0.
struct member {
  role part = role::worker;
  std::uint32_t number = 0;

  friend auto operator<=>(const member&, const member&) = default;
};

/// "worker 2"; "server" without a number, since there is one.
std::string to_string(const member& m);

/// What a side says of itself in a greeting: texts by their names, as in Seastar's negotiation of features. A
/// reader ignores names that it does not know, so that later builds can say more.
using features = std::map<std::string, std::string, std::less<>>;

/// The names that this build knows.
namespace feature {
inline constexpr std::string_view protocol = "protocol";         ///< the version of the protocol, in decimal
inline constexpr std::string_view run = "run";                   ///< 16 hexadecimal digits
inline constexpr std::string_view role = "role";                 ///< "worker"
inline constexpr std::string_view number = "number";             ///< among those of its role, in decimal
inline constexpr std::string_view incarnation = "incarnation";   ///< in decimal
inline constexpr std::string_view connection = "connection";     ///< "control" or "bulk"
inline constexpr std::string_view session = "session";           ///< 16 hexadecimal digits
inline constexpr std::string_view model = "model";               ///< SHA-256 of the model
inline constexpr std::string_view data = "data";                 ///< SHA-256 of the training samples
inline constexpr std::string_view wire = "wire";                 ///< how numbers travel: "float32"
inline constexpr std::string_view build = "build";               ///< commit, compiler and instructions
inline constexpr std::string_view devices = "devices";           ///< that a worker brings, in decimal
inline constexpr std::string_view device_names = "device_names"; ///< of these: "cpu:0,cpu:1"
inline constexpr std::string_view computer = "computer";         ///< what they are: "NVIDIA H100"
inline constexpr std::string_view products = "products";         ///< what multiplies on those that are GPUs
} // namespace feature

inline constexpr std::size_t most_features = 32;
inline constexpr std::size_t most_feature_name_bytes = 32;
inline constexpr std::size_t most_feature_value_bytes = 256;

/// The records of a greeting as they are sent.
/// Errors  std::length_error if there are too many, or one is too long or has no name.
bytes encode(const features& all);

/// Reads the records of a greeting, and nothing behind them. `frame` names it in errors.
/// Errors  protocol_error, also for a name that stands there twice.
features decode_features(std::string_view frame, byte_view payload);

/// The text of a feature, as a view into `all`; none if it is not there.
std::optional<std::string_view> found_in(const features& all, std::string_view name) noexcept;

/// The number of a feature in decimal, none if it is not there.
/// Errors  protocol_error if it is no number or larger than `most`.
std::optional<std::uint64_t> number_in(const features& all, std::string_view name, std::uint64_t most);

/// The number of a feature that has 16 hexadecimal digits, as written by key_text(); none if it is not there.
/// Errors  protocol_error if it is anything else.
std::optional<std::uint64_t> key_in(const features& all, std::string_view name);
std::string key_text(std::uint64_t key);

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
  std::string expected, found;

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
bytes encode(const refusal& r);
/// Errors  protocol_error.
welcome decode_welcome(byte_view payload);
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
