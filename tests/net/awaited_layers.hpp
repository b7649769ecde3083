#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/tests/net/played_layers.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace mailgrad::net {

/// The layers above a session whose network has a thread of its own: keep what they are told, and let a test
/// wait until it has come.
///
/// Threads any.
class awaited_layers final : public session_events {
public:
  session* own = nullptr;          ///< set before any event
  std::string from{};              ///< of a server's guest: where it comes from
  std::atomic<bool> echoes{false}; ///< sends every message back
  std::atomic<bool> gives_credit{true};
  std::atomic<int> loans{0};             ///< bodies that came without being moved
  std::atomic<int>* under_way = nullptr; ///< counts the bodies that are arriving, if it is there

  /// False if it does not come true in a time that is far too long.
  template <class Predicate>
  bool wait_for(Predicate is_true) {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, std::chrono::seconds{60}, [&] { return is_true(kept_); });
  }
  /// False if it ends first.
  bool wait_joined() {
    wait_for([](const played_layers& x) { return x.joins > 0 || !x.ends.empty(); });
    return kept().joins > 0;
  }
  /// The words of its end, "" if there is none.
  std::string wait_ended() {
    const bool ended = wait_for([](const played_layers& x) { return !x.ends.empty(); });
    const std::lock_guard guard(mutex_);
    return ended ? kept_.ends.front().words : "";
  }
  /// All of it; not while a body is arriving.
  played_layers kept() {
    const std::lock_guard guard(mutex_);
    return kept_;
  }

  void joined(const welcome& terms) override {
    note([&] { kept_.joined(terms); });
  }
  void message_came(byte_view message) override {
    note([&] { kept_.message_came(message); });
    if (gives_credit) own->allow(1, 0);
    if (echoes) own->send(bytes(message.begin(), message.end()));
  }
  std::span<std::byte> place_of_body(byte_view tag, std::uint64_t size) override {
    if (under_way) ++*under_way;
    const std::lock_guard guard(mutex_);
    return kept_.place_of_body(tag, size);
  }
  void body_came(byte_view tag) override {
    if (under_way) --*under_way;
    note([&] { kept_.body_came(tag); });
    if (gives_credit) own->allow(0, 1);
  }
  bool body_lent(byte_view tag, const borrowed& body, std::uint64_t number) override {
    ++loans;
    return session_events::body_lent(tag, body, number);
  }
  void held(bool is_held) override {
    note([&] { kept_.held(is_held); });
  }
  void credit_came() override {
    note([&] { kept_.credit_came(); });
  }
  void ended(const ending& why) override {
    note([&] { kept_.ended(why); });
  }

private:
  template <class Change>
  void note(Change change) {
    const std::lock_guard guard(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  played_layers kept_;
};

/// A server for tests: takes in workers, and keeps what each of them said.
///
/// Threads guests() and turned_away() of any; the rest as a doorkeeper's.
class awaited_server final : public doorkeeper {
public:
  explicit awaited_server(server_options options = {}) : end(with_defaults(std::move(options)), *this) {}

  /// The nth who was let in, waited for. Null if it does not come.
  awaited_layers* guest(std::size_t nth) {
    std::unique_lock guard(mutex_);
    const bool came =
        changed_.wait_for(guard, std::chrono::seconds{60}, [&] { return guests_.size() > nth; });
    return came ? guests_[nth].get() : nullptr;
  }
  /// The words of the nth refusal.
  std::string refused(std::size_t nth) {
    std::unique_lock guard(mutex_);
    const bool came =
        changed_.wait_for(guard, std::chrono::seconds{60}, [&] { return refusals_.size() > nth; });
    return came ? refusals_[nth].words() : "";
  }

  /// Where the nth comes from who was refused.
  std::string refused_from(std::size_t nth) {
    refused(nth);
    const std::lock_guard guard(mutex_);
    return turned_away_.size() > nth ? turned_away_[nth] : "";
  }

  std::atomic<int>* under_way = nullptr; ///< what the layers of each guest get

private:
  static server_options with_defaults(server_options o) {
    o.slots = {{role::worker, 64}, {role::shard, 64}};
    if (o.run == 0) o.run = 7;
    o.draw = [random = std::mt19937_64{1}]() mutable { return random(); };
    return o;
  }
  session_events& let_in(session& s, const std::string& from) override {
    const std::lock_guard guard(mutex_);
    auto& made = *guests_.emplace_back(std::make_unique<awaited_layers>());
    made.own = &s;
    made.from = from;
    made.under_way = under_way;
    changed_.notify_all();
    return made;
  }
  void turned_away(const refusal& why, const std::string& from) override {
    const std::lock_guard guard(mutex_);
    refusals_.push_back(why);
    turned_away_.push_back(from);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<awaited_layers>> guests_;
  std::vector<refusal> refusals_;
  std::vector<std::string> turned_away_;

public:
  server_end end;
};

/// A client for tests.
struct awaited_client {
  explicit awaited_client(network& net, hello says = {}) : end(std::move(says), layers, net.now()) {
    layers.own = &end.own();
  }

  awaited_layers layers;
  client_end end;
};

} // namespace mailgrad::net
