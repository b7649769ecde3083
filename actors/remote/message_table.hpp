#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/net/loan.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <compare>
#include <set>

// What two processes say to each other, byte by byte in docs/messages.md: who is who, which messages cross
// and how their fields are written, and what the other process may say.

namespace mailgrad::remote {

/// What an actor is to the run. The numbers stand on the wire.
enum class duty : std::uint8_t {
  nobody = 0, ///< the sender of a message that has none
  host = 1,   ///< of each process: begins and ends what it has of the run
  coordinator = 2,
  feeder = 3,
  tracker = 4,
  shard = 5,
  worker = 6,
  recorder = 7,
  evaluator = 8,
};
inline constexpr duty last_duty = duty::evaluator;

/// An actor as both processes of a channel name it. There is one coordinator, but several shards.
struct actor_address {
  duty what = duty::nobody;
  std::uint32_t number = 0; ///< of a shard; of a worker its rank

  friend auto operator<=>(const actor_address&, const actor_address&) = default;
};

/// "shard 2", "the feeder"
std::string to_string(const actor_address& a);

/// The handles behind the addresses of a channel: actors of this process, and those that stand in for actors
/// of the other one.
class address_book {
public:
  void add(actor_address a, caf::actor handle) { handles_[a] = std::move(handle); }
  /// Null if there is none.
  caf::actor at(actor_address a) const {
    const auto found = handles_.find(a);
    return found == handles_.end() ? caf::actor() : found->second;
  }
  /// nobody for an actor that has no address here.
  actor_address of(const caf::actor& handle) const {
    for (const auto& [a, known] : handles_)
      if (known == handle) return a;
    return {};
  }

  void clear() { handles_.clear(); }

private:
  std::map<actor_address, caf::actor> handles_;
};

/// Writes messages into an archive, and reads them from one, by the `inspect` that each message has for CAF.
/// So a message is described once, wherever it goes.
///
/// A handle to an actor is written as its address, and read as whoever has that address in this process.
/// Errors  archive_error for what makes no message: also a handle that must be there and is not.
class field_inspector {
  template <class T>
  struct element {
    using type = T;
  };
  template <class T>
  struct element<std::vector<T>> {
    using type = T;
  };
  /// Whether the archive can write it by itself.
  template <class T>
  static constexpr bool is_archived = [] {
    using E = typename element<T>::type;
    return std::is_arithmetic_v<E> || std::same_as<E, std::string> || kept<E> || kept_number<E> ||
           kept_from_outside<E>;
  }();

public:
  static constexpr bool names_fields = true;

  field_inspector(archive& a, const address_book& book) : archive_(a), book_(book) {}

  bool reads() const noexcept { return archive_.reads(); }

  template <class T>
  void field(std::string_view name, T& x) {
    if constexpr (std::is_enum_v<T>) {
      auto number = static_cast<std::underlying_type_t<T>>(x);
      archive_.field(name, number);
      x = static_cast<T>(number);
    } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
      std::int64_t count = x.count();
      archive_.field(name, count);
      x = T{count};
    } else if constexpr (is_archived<T>) {
      archive_.field(name, x);
    } else {
      archive_.group(name, [&] { inspect(*this, x); });
    }
  }

  void field(std::string_view name, caf::actor& x);

  template <class T>
  void field(std::string_view name, std::optional<T>& x) {
    bool present = x.has_value();
    archive_.group(name, [&] {
      archive_.field("there", present);
      if (!present) return x.reset();
      if (!x) x.emplace();
      field("value", *x);
    });
  }

  template <class T>
  requires(!is_archived<T>) void field(std::string_view name, std::vector<T>& x) {
    std::uint64_t count = x.size();
    archive_.group(name, [&] {
      archive_.field("count", count);
      if (reads()) x.clear();
      for (std::uint64_t i = 0; i < count; ++i) { // what is read grows with what is there
        if (reads()) x.emplace_back();
        field(std::to_string(i), x[i]);
      }
    });
  }

  /// Weights. They are copied.
  void field(std::string_view name, snapshot& x);
  /// Part of a checkpoint.
  void field(std::string_view name, std::shared_ptr<const saved_fields>& x);

private:
  archive& archive_;
  const address_book& book_;
};

/// The number of a message on the wire.
using message_kind = std::uint16_t;

/// None for a message that stays in its process.
std::optional<message_kind> kind_of(const caf::message& m);

/// The number of a message that goes between processes.
template <class Message>
message_kind kind_of() {
  static const message_kind kind = kind_of(caf::make_message(Message{})).value();
  return kind;
}

/// "push_gradient"; empty for a number that this build does not know.
std::string_view name_of(message_kind kind) noexcept;

/// Of a message whose values do not travel beside them.
void write_fields(message_kind kind, const caf::message& m, field_inspector& f);

/// Errors  archive_error: there is no such kind, or the fields make no such message.
caf::message read_fields(message_kind kind, field_inspector& f);

/// Whether a message may be the words of such an actor. A process that is not as it should be must not speak
/// for others. duty::nobody: of the host of a process.
bool may_be_sent_by(message_kind kind, duty sender) noexcept;
/// Whether such an actor takes the message. One that does not would print a line for each.
bool may_be_sent_to(message_kind kind, duty receiver) noexcept;

/// What bounds the messages of a kind that an actor of one process sends to one of another. Whatever the
/// kind, messages that their receiver has not read yet hold the credit by which they came, so these are never
/// more than that (net::server_options::messages, bodies). More than a bound ends the session.
struct message_bound {
  enum class of : std::uint8_t {
    unread,     ///< no other: what the receiver keeps of it takes the place of what the last one left
    unanswered, ///< the receiver owes each an answer, and at most `most` have none
    in_all,     ///< at most `most` in a session, since they begin or end something
  };
  of what = of::unread;
  std::uint32_t most = 0;

  friend bool operator==(const message_bound&, const message_bound&) = default;
};

/// Unread, for a number that this build does not know.
message_bound bound_of(message_kind kind) noexcept;
/// "2 unanswered", "1 in all"; "unread"
std::string to_string(message_bound x);

/// Whether a message of kind `answer` answers one of kind `question`.
bool answers(message_kind answer, message_kind question) noexcept;

/// Where the fields of a message are. The numbers stand on the wire.
enum class message_layout : std::uint8_t {
  fields = 0,            ///< behind the envelope, and there is no body
  fields_and_values = 1, ///< behind the envelope, beside a body with the values
  fields_in_body = 2,    ///< in the body, since they are too long for a message
};

/// What stands before the fields of a message, byte by byte in docs/messages.md.
struct envelope {
  std::uint64_t order = 0; ///< counts the messages of one direction, from 0
  actor_address to, from;
  message_kind kind = 0;
  message_layout layout = message_layout::fields;

  friend bool operator==(const envelope&, const envelope&) = default;
};

inline constexpr std::size_t envelope_bytes = 21;

void write_envelope(net::frame_writer& w, const envelope& head);

/// Leaves the reader at the fields.
/// Errors  net::protocol_error for bytes that are no envelope, and for a layout that needs a body if the
///         message came without one, or has no use for the one with which it came.
envelope read_envelope(net::frame_reader& r, bool has_body);

/// Ends the session by which a message came.
[[noreturn]] void refuse_message(const std::string& words);

/// What the other process of a channel may say, so that one that is not as it should be harms itself alone:
/// it speaks for its own actors, in their words, and about its own shards and workers, and it keeps the
/// bounds of its messages.
/// Errors  net::protocol_error, as refuse_message().
class peer_checks {
public:
  /// An actor of the other process.
  void add(const actor_address& a) { known_.insert(a); }

  /// That `from` may say it, to such an actor as `to`. One without an address may say what any of them may.
  void require_ends(message_kind kind, const actor_address& from, const actor_address& to) const;
  /// That the message is about its sender, if this is a shard or a worker, and about no actor elsewhere.
  void require_subject(message_kind kind, const actor_address& from, const caf::message& m) const;

  /// Notes a message of the other process, of which there may be so many as bound_of() its kind says.
  void take(message_kind kind, const actor_address& from, const actor_address& to);
  /// Notes a message of this process, which may be the answer to all questions before; to a watcher, to one.
  void answer(message_kind kind, const actor_address& from, const actor_address& to);

private:
  std::set<actor_address> known_;
  /// Messages of a kind from an actor of the other process to one of this.
  struct way {
    actor_address from, to;
    message_kind kind;

    friend auto operator<=>(const way&, const way&) = default;
  };
  std::map<way, std::uint32_t> taken_; ///< how many count for a bound
};

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

/// Values on their way into this process: where their bytes belong, and the message they then make, in the
/// order in which messages were sent.
struct arriving {
  std::span<std::byte> place; ///< empty if lent values stay where they are; else they are copied to here
  std::function<caf::message()> finish; ///< may throw archive_error
};

/// How the values of one kind of message become bytes, such as those of a gradient.
/// Threads write(): any, one caller at a time for one receiver; the rest: the channel's.
class body_form {
public:
  virtual ~body_form() = default;

  /// Writes what the other process must know before the values come, and returns these.
  virtual attached write(const caf::message& m, const actor_address& to, field_inspector& fields) = 0;
  /// Reads that.
  /// Errors  archive_error: fields or size make no such message.
  virtual arriving begin(field_inspector& fields, const actor_address& from, const actor_address& to,
                         const announced& values) = 0;
};

} // namespace mailgrad::remote
