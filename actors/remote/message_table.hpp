#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/field_inspector.hpp>

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

/// Whether a message may be the words of such an actor. A process that is not as it should be must not speak
/// for others. duty::nobody: of the host of a process.
bool may_be_sent_by(message_kind kind, duty sender) noexcept;

/// The shard or the worker that a message is about, such as a report; none if it is about no single one.
std::optional<actor_address> subject_of(message_kind kind, const caf::message& m);
/// The step of a gradient; none of any other message.
std::optional<std::uint64_t> step_of(message_kind kind, const caf::message& m);

/// How many such messages an actor may have to answer at most; none if it answers none. A worker sends the
/// next one when it has the answer: a gradient to a shard, the wish for a batch to the feeder, a piece of its
/// timeline to the coordinator. A watcher may ask the next thing before it has the answer to the last.
std::optional<std::uint32_t> most_unanswered(message_kind kind);
/// Whether such a message answers one of those.
bool is_answer(message_kind kind);

} // namespace mailgrad::remote
