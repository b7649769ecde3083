#pragma once

#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/actors/remote/message_table.hpp>

#include <set>
#include <string>

namespace mailgrad::remote {

/// Ends the session by which a letter came.
[[noreturn]] void refuse_letter(const std::string& words);

/// What the other process of a link may say, so that one that is not as it should be harms itself alone: it
/// speaks for its own actors, in their words, and about its own shards and workers.
///
/// Errors  net::protocol_error, as refuse_letter().
/// Threads one caller at a time.
class letter_rules {
public:
  /// An actor of the other process.
  void add(const actor_address& a) { known_.insert(a); }

  /// An actor without an address may say what one of them may.
  void require_sender(message_kind kind, const actor_address& from) const;
  /// That the message is about its sender, if this is a shard or a worker, and about no actor elsewhere.
  void require_subject(message_kind kind, const actor_address& from, const caf::message& m) const;

private:
  std::set<actor_address> known_;
};

} // namespace mailgrad::remote
