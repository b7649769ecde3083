#pragma once

#include <mailgrad/actors/remote/channel.hpp>

#include <condition_variable>

namespace mailgrad::remote {

/// How long an owner that goes away waits for the last words of its process.
inline constexpr std::chrono::seconds most_farewell{2};

/// A process that has joined, or joins, a run of another process: its channel and the session below.
/// Threads one owner; wait(), wait_for(), terms() and close(): any.
class client_side {
public:
  /// `by` carries the bytes. The events are called on the network's thread.
  client_side(std::shared_ptr<net::network> by, net::hello says, channel_events events);
  /// close(), if that was not called.
  ~client_side() { close("the process has left"); }
  client_side(const client_side&) = delete;
  client_side& operator=(const client_side&) = delete;

  const std::shared_ptr<channel>& way() const noexcept { return channel_; }
  const std::shared_ptr<net::network>& network() const noexcept { return network_; }

  /// Lends values that lie in this heap, where both processes see it. Before it connects.
  void lend_from(std::shared_ptr<net::shared_heap> heap) { end_->lend_from(std::move(heap)); }
  // The rest of what is said before it connects.
  void call_server(std::string name) { end_->own().call_server(std::move(name)); }
  void greet_patiently() { end_->own().greet_patiently(); }
  /// The server is known to have listened: if nobody does, connect() fails at once.
  void try_once() { end_->try_once(); }
  /// Connects, and returns when the server has taken this process in.
  /// Errors  std::invalid_argument for no address; join_error with the words of the end.
  void join(const std::string& address);
  /// The first half of join(), which does not wait.
  /// Errors  std::invalid_argument for no address.
  void connect(const std::string& address) {
    const std::lock_guard lock(connecting_);
    if (!closed_) network_->connect(*end_, address);
  }
  /// The other half. Returns how it ended if the server did not take this process in.
  std::optional<net::ending> wait_until_in() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return terms_ || ended_; });
    return terms_ ? std::nullopt : ended_; // one that is in may have ended since
  }
  /// None before it is in.
  std::optional<net::welcome> terms() const {
    const std::lock_guard lock(mutex_);
    return terms_;
  }

  /// None before the session has ended.
  std::optional<net::ending> outcome() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// Waits until the session has ended, but at most for `span`; true if it has.
  bool wait_for(std::chrono::milliseconds span) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return ended_.has_value(); });
  }
  net::ending wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_.has_value(); });
    return *ended_;
  }
  /// Says goodbye, if the session has not ended, and cuts the connections. Nothing more is called when it
  /// returns.
  void leave(const std::string& words) {
    channel_->leave(words);
    close(words);
  }
  /// Cuts the connections. Nothing more is called when it returns.
  void close(const std::string& words);

private:
  mutable std::mutex mutex_; ///< guards the two members below
  mutable std::condition_variable changed_;
  std::optional<net::welcome> terms_;
  std::optional<net::ending> ended_;

  std::mutex connecting_; ///< held by connect() and close(), and by no event
  std::shared_ptr<net::network> network_;
  std::shared_ptr<channel> channel_;
  std::unique_ptr<net::client_end> end_;
  std::atomic<bool> closed_{false};
};

/// Whether a connection or the peer's patience ended, and not the work.
bool is_of_the_connection(net::end_reason r) noexcept;

/// When a worker that was cut off from its run tries to come back, as whom, and when it gives up.
///
///     in --lost, silent, superseded or late--> cut off --a try--> in
///      \--any other end--> out                     \--final, or out of patience--> out
///
/// It comes back only to the run that it knows. First it asks for its own number under the next incarnation:
/// that ends what the server may still take for alive of the worker itself, and of nobody else. If another
/// worker has the number by now, it takes any that is free.
/// Units   moments are those of one clock.
class rejoin_plan {
public:
  static constexpr std::chrono::milliseconds shortest_pause{50};
  /// So that a worker is back within a second of its network.
  static constexpr std::chrono::milliseconds longest_pause{500};

  /// It tries for so long at most; 0: not at all.
  explicit rejoin_plan(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The server has taken it in, by these terms.
  void is_in(const net::welcome& terms, net::instant now) {
    terms_ = terms;
    in_since_ = now;
    takes_any_ = false;
  }
  /// Its session has ended. Whether it shall try to come back.
  bool is_cut_off(const net::ending& why, net::instant now) {
    if (patience_.count() == 0 || !is_of_the_connection(why.reason)) return false;
    if (now - in_since_ > longest_pause) pause_ = std::chrono::milliseconds{0};
    until_ = now + patience_;
    return true;
  }
  /// How long to wait before the next try: nothing before the first, and longer each time, also when it was
  /// cut off again at once.
  std::chrono::milliseconds pause() const noexcept { return pause_; }
  /// What the next try says.
  net::hello says() const;
  /// The try failed. Whether another one shall follow.
  bool tries_again_after(const net::ending& why, net::instant now);

private:
  std::chrono::milliseconds patience_;
  net::welcome terms_;
  net::instant in_since_{0};
  net::instant until_{0}; ///< of patience
  std::chrono::milliseconds pause_{0};
  bool takes_any_ = false; ///< number, since its own is another's now
};

} // namespace mailgrad::remote
