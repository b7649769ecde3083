#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/actors/remote/field_inspector.hpp>
#include <mailgrad/net/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
/// Whether such an actor takes the message. One that does not would print a line for each.
bool may_be_sent_to(message_kind kind, duty receiver) noexcept;

/// The shard or the worker that a message is about, such as a report; none if it is about no single one.
std::optional<actor_address> subject_of(message_kind kind, const caf::message& m);
/// The step of a gradient; none of any other message.
std::optional<std::uint64_t> step_of(message_kind kind, const caf::message& m);

/// What bounds the letters of a kind that an actor of one process sends to one of another. Whatever the kind,
/// letters that their receiver has not read yet hold the credit by which they came, so these are never more
/// than that (net::server_options::messages, bodies). More than a bound ends the session.
struct letter_bound {
  enum class of : std::uint8_t {
    unread,     ///< no other: what the receiver keeps of it takes the place of what the last one left
    unanswered, ///< the receiver owes each an answer, and at most `most` have none
    in_all,     ///< at most `most` in a session, since they begin or end something
  };
  of what = of::unread;
  std::uint32_t most = 0;

  friend bool operator==(const letter_bound&, const letter_bound&) = default;
};

/// Unread, for a number that this build does not know.
letter_bound bound_of(message_kind kind) noexcept;
/// "2 unanswered", "1 in all"; "unread"
std::string to_string(letter_bound x);

/// Whether a message of kind `answer` answers one of kind `question`.
bool answers(message_kind answer, message_kind question) noexcept;

/// Where the fields of a letter are. The numbers stand on the wire.
enum class letter_layout : std::uint8_t {
  fields = 0,            ///< behind the head, and there is no body
  fields_and_values = 1, ///< behind the head, beside a body with the values
  fields_in_body = 2,    ///< in the body, since they are too long for a message
};

/// What stands before the fields of a letter, byte by byte in docs/letters.md.
struct letter_head {
  std::uint64_t order = 0; ///< counts the letters of one direction, from 0
  actor_address to, from;
  message_kind kind = 0;
  letter_layout layout = letter_layout::fields;

  friend bool operator==(const letter_head&, const letter_head&) = default;
};

inline constexpr std::size_t letter_head_bytes = 21;

void write_head(net::frame_writer& w, const letter_head& head);

/// Leaves the reader at the fields.
/// Errors  net::protocol_error for bytes that are no head, and for a layout that needs a body if the letter
///         came without one, or has no use for the one with which it came.
letter_head read_head(net::frame_reader& r, bool has_body);

} // namespace mailgrad::remote
