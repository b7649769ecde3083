#pragma once

#include <mailgrad/actors/remote/field_inspector.hpp>
#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/loan.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace mailgrad::remote {

/// Values that travel beside the fields of a message. They are not copied, and `keeps` holds their memory.
struct attached {
  net::byte_view bytes;
  std::shared_ptr<const void> keeps;
};

/// What is known of values before they come.
struct announced {
  std::uint64_t bytes = 0;
  /// Where they lie already, if the other process lends them; null: they come. Kept by `lent->keeps`.
  const net::borrowed* lent = nullptr;
};

/// Values on their way into this process: where their bytes belong, and the message they then make. The
/// message is made in the order in which messages were sent, which may be later than when the bytes are
/// there.
struct arriving {
  std::span<std::byte> place; ///< empty if lent values stay where they are; else they are copied to here
  std::function<caf::message()> finish; ///< may throw archive_error
};

/// How the values of one kind of message become bytes, such as those of a gradient.
///
/// Threads write(): any, one caller at a time for one receiver; the rest: the link's.
class body_form {
public:
  virtual ~body_form() = default;

  /// Writes what the other process must know before the values come, and returns these.
  virtual attached write(const caf::message& m, const actor_address& to, field_inspector& fields) = 0;
  /// Reads that.
  ///
  /// Errors  archive_error: fields or size make no such message.
  virtual arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                         const announced& values) = 0;
};

/// Mini-batches as bytes: the shapes of their tensors, then the elements of all of them.
class batch_form final : public body_form {
public:
  attached write(const caf::message& m, const actor_address& to, field_inspector& fields) override;
  arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                 const announced& values) override;
};

} // namespace mailgrad::remote
