#pragma once

#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>

// What a server and a parameter host have in common, where workers bring gradients to shards.

namespace mailgrad::remote {

/// For how long a shard's weights stay as they are after the session with a worker that reads them has ended.
/// By then that worker knows it and has left, or it stands still and every shard has ended its session.
inline std::chrono::milliseconds kept_for(const net::timing& times) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(2 * times.silence());
}

/// What is told of those who are refused: the first few of a minute, and how many others there were.
/// Strangers who knock without end would else fill the log.
/// Units   moments are those of one clock.
class refusal_news {
public:
  static constexpr std::uint64_t most_a_minute = 3;

  /// The line to tell now; none: this refusal is only counted.
  std::optional<std::string> refused(const std::string& words, net::instant now) {
    std::string before;
    if (!began_ || now - *began_ >= std::chrono::minutes{1}) {
      before = rest();
      began_ = now;
      told_ = 0;
    }
    if (told_++ < most_a_minute) return before.empty() ? words : before + "\n" + words;
    ++unreported_;
    last_ = words;
    return std::nullopt;
  }
  /// How many were refused since the last line; empty: nobody.
  std::string rest() {
    const std::uint64_t count = std::exchange(unreported_, 0);
    if (count == 0) return {};
    return fmt::format("refused {} more connection{}; the last: {}", count, count == 1 ? "" : "s", last_);
  }

private:
  std::optional<net::instant> began_; ///< the present minute
  std::uint64_t told_ = 0, unreported_ = 0;
  std::string last_;
};

/// Lets the worker of a session exchange gradients for weights with shards of this process, by this channel.
void serve_exchange(const std::shared_ptr<channel>& by, const exchange_terms& terms,
                    caf::actor_system& system);

/// What is waited for between this process and the one at the other end of `by`: credit, a turn in a sum, and
/// room for its gradients, of which it sends so many in a step. `where` says who lacks room: "the server".
std::vector<wait_reason> waits_at_admission(std::uint64_t session, const channel& by, const net::member& who,
                                            const admission_bounds& bounds, std::size_t gradients_a_step,
                                            const std::string& where);

/// What people call the process that holds these shards: "the parameter host of shards 0, 2".
inline std::string name_of_host(std::span<const std::uint32_t> shards) {
  return "the parameter host of " + listed("shard", shards);
}

/// The workers that a parameter host has let in, for its first shard, which tells the coordinator what they
/// wait for.
/// Threads any.
class admitted_workers {
public:
  /// Workers may come to these shards.
  void open(admission_bounds bounds, std::vector<std::uint32_t> shards) {
    const std::lock_guard lock(mutex_);
    bounds_ = std::move(bounds);
    shards_ = std::move(shards);
  }
  void add(std::uint64_t session, const net::member& who, std::shared_ptr<channel> by) {
    const std::lock_guard lock(mutex_);
    admitted_.insert_or_assign(session, admitted_peer{who, std::move(by)});
  }
  void remove(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    admitted_.erase(session);
  }
  std::vector<wait_reason> waits() const;

private:
  struct admitted_peer {
    net::member who;
    std::shared_ptr<channel> by;
  };

  mutable std::mutex mutex_;
  admission_bounds bounds_;
  std::vector<std::uint32_t> shards_;
  std::map<std::uint64_t, admitted_peer> admitted_; ///< by session
};

} // namespace mailgrad::remote
