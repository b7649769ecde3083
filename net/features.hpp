#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad::net {

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
inline constexpr std::string_view products = "products";         ///< what multiplies on those that are cards
} // namespace feature

inline constexpr std::size_t most_features = 32;
inline constexpr std::size_t most_feature_name_bytes = 32;
inline constexpr std::size_t most_feature_value_bytes = 256;

/// The records as a greeting has them.
///
/// Errors  std::length_error if there are too many, or one is too long or has no name.
bytes encode(const features& all);

/// Reads them, and nothing behind them. `frame` names it in errors.
///
/// Errors  protocol_error, also for a name that stands there twice.
features decode_features(std::string_view frame, byte_view payload);

/// The text of a feature; none if it is not there.
std::optional<std::string_view> found_in(const features& all, std::string_view name) noexcept;

/// The number of a feature in decimal, none if it is not there.
///
/// Errors  protocol_error if it is no number or larger than `most`.
std::optional<std::uint64_t> number_in(const features& all, std::string_view name, std::uint64_t most);

/// The number of a feature that has 16 hexadecimal digits, as written by key_text(); none if it is not there.
///
/// Errors  protocol_error if it is anything else.
std::optional<std::uint64_t> key_in(const features& all, std::string_view name);
std::string key_text(std::uint64_t key);

} // namespace mailgrad::net
