#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/field_inspector.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

// The messages that go between processes, each with its number on the wire.

namespace mailgrad::remote {

/// The number of a message on the wire.
using message_kind = std::uint16_t;

/// None for a message that stays in its process.
std::optional<message_kind> kind_of(const caf::message& m);

/// The number of a message that goes between processes.
template <class Message>
message_kind kind_of();

/// "push_gradient"; empty for a number that this build does not know.
std::string_view name_of(message_kind kind) noexcept;

/// Writes the fields of a message whose values do not travel beside them.
void write_fields(message_kind kind, const caf::message& m, field_inspector& f);

/// Errors  archive_error: there is no such kind, or the fields make no such message.
caf::message read_fields(message_kind kind, field_inspector& f);

/// The shard that a message is about, such as a report; none if it is about no single one.
std::optional<shard_index> shard_of(message_kind kind, const caf::message& m);

} // namespace mailgrad::remote
