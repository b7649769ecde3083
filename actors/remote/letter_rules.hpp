#pragma once

#include <mailgrad/actors/remote/address.hpp>
#include <mailgrad/actors/remote/message_table.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace mailgrad::remote {

/// Ends the session by which a letter came.
[[noreturn]] void refuse_letter(const std::string& words);

/// What the other process of a link may say, so that one that is not as it should be harms itself alone: it
/// speaks for its own actors, in their words, and about its own shards and workers, and it asks an actor of
/// this process for the next thing when it has the last one.
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

  /// Notes a message of the other process, which may be a question.
  void ask(message_kind kind, const actor_address& from, const actor_address& of);
  /// Notes a message of this process, which may be the answer to all questions before; to a watcher, to one.
  void answer(message_kind kind, const actor_address& from, const actor_address& to);

private:
  std::set<actor_address> known_;
  /// How many questions of an actor of the other process one of this process has not answered.
  std::map<std::pair<actor_address, actor_address>, std::uint32_t> open_;
};

} // namespace mailgrad::remote
