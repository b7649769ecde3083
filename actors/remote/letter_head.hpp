#pragma once

#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/actors/remote/message_table.hpp>
#include <mailgrad/net/frame_fields.hpp>

#include <cstddef>
#include <cstdint>

namespace mailgrad::remote {

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
