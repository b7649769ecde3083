#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/hello.hpp>

// What a server answers the hosts of other processes: a handler for each of them, which is an actor.

namespace mailgrad::remote {

/// What a worker hears at the end, from whichever is the first to say it: its handler or the server.
inline constexpr std::string_view work_is_done = "the run needs the worker no longer";

/// What a watcher is told, and what is then done: an end of the run that came first would cut the answer off.
struct run_answer {
  std::string text;
  std::function<void()> then{};
};

/// Answers a watcher's question about the run. It may block. std::invalid_argument becomes a refusal.
using run_answers = std::function<run_answer(const std::string& what, const std::string& argument)>;

/// Whether the run has failed, which its workers and parameter hosts are told when they have done their part,
/// so that their programs end with a failure as well.
///
/// Threads any
class run_verdict {
public:
  void fail(std::string why) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(why);
  }
  net::ending end_of_work(std::string words) const {
    const std::lock_guard lock(mutex_);
    if (!failure_) return {net::end_reason::left, std::move(words)};
    return {net::end_reason::run_failed, "the run has failed: " + *failure_};
  }

private:
  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
};

/// Tells a worker's process its terms first. When that process has said all that it had to say, its session
/// is ended.
class worker_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.worker-handler";

  /// `write_terms` is called once, and builds the graphs of the model. The coordinator is asked whether it
  /// knows the verdict.
  worker_handler(caf::event_based_actor* self, std::shared_ptr<channel> by,
                 std::function<std::string()> write_terms, caf::actor coordinator,
                 std::shared_ptr<const run_verdict> verdict);
  caf::behavior make_behavior();

private:
  void tell_terms() const;
  void let_go(const worker_leaves& x);

  std::shared_ptr<channel> by_;
  std::function<std::string()> write_terms_;
  caf::actor coordinator_;
  std::shared_ptr<const run_verdict> verdict_;
};

/// Tells a parameter host its terms, and hears where its shards are reached.
class shard_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.shard-handler";

  /// `ready` is called once, with the address.
  shard_handler(caf::event_based_actor* self, std::shared_ptr<channel> by, std::string terms,
                std::function<void(const std::string& address)> ready);
  caf::behavior make_behavior();

private:
  std::shared_ptr<channel> by_;
  std::string terms_;
  std::function<void(const std::string&)> ready_;
};

/// Answers who watches a run. It has a thread of its own, because answers take their time.
class watcher_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.watcher-handler";

  watcher_handler(caf::event_based_actor* self, std::shared_ptr<channel> by, run_answers answers)
      : actor_part(self), by_(std::move(by)), answers_(std::move(answers)) {}
  caf::behavior make_behavior();

private:
  void answer(const run_asked& x) const;

  std::shared_ptr<channel> by_;
  run_answers answers_;
};

/// How a member stands whose session has ended so.
run_member::state state_after(const net::ending& why);

/// A server's list of who is in its run and who was: workers and parameter hosts, each with its last
/// incarnation, and how often one before it was lost. It has at most one entry for each slot.
///
/// Units   moments are those of the network's clock.
/// Threads one caller at a time.
class member_list {
public:
  void joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
              net::instant now);
  /// It is to hold these shards.
  void holds(const net::member& who, std::vector<std::uint32_t> shards) {
    if (const auto found = all_.find(who); found != all_.end()) found->second.shards = std::move(shards);
  }
  /// The session of this incarnation has ended. If a later one is in, only the loss is noted, and of one that
  /// was never in, nothing.
  void ended(const net::welcome& terms, const net::ending& why, net::instant heard, net::instant now);
  /// The run has ended, and its sessions end with it. Whoever was in it is done.
  void close(net::instant now);
  bool is_closed() const noexcept { return closed_; }

  /// `heard` says of one that is in when its last byte came; nothing if that is not known.
  std::vector<run_member>
  told(net::instant now, const std::function<std::optional<net::instant>(const net::member&)>& heard) const;

private:
  struct entry {
    std::uint32_t incarnation = 0;
    run_member::state is = run_member::state::joined;
    net::instant since{0};
    std::optional<net::instant> heard{}; ///< of one that is gone
    std::string from;
    std::vector<std::string> devices{};
    std::vector<std::uint32_t> shards{};
    std::uint32_t losses = 0;
    std::string why{};
  };

  std::map<net::member, entry> all_;
  bool closed_ = false;
};

} // namespace mailgrad::remote
