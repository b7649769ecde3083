#pragma once

#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/actors/remote/message_table.hpp>

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace mailgrad::remote {

/// Ends the session by which a letter came.
[[noreturn]] void refuse_letter(const std::string& words);

/// What the other process of a link may say, so that one that is not as it should be harms itself alone: it
/// speaks for its own actors, in their words, and about its own shards and workers, and it keeps the bounds
/// of its letters.
///
/// Errors  net::protocol_error, as refuse_letter().
/// Threads one caller at a time.
class letter_rules {
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
  /// Letters of a kind from an actor of the other process to one of this.
  struct way {
    actor_address from, to;
    message_kind kind;

    friend auto operator<=>(const way&, const way&) = default;
  };
  std::map<way, std::uint32_t> taken_; ///< how many count for a bound
};

} // namespace mailgrad::remote
