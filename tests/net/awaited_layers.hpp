#pragma once

#include <mailgrad/net/network.hpp>
#include <mailgrad/tests/net/played_layers.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::net {

/// What threads of a network note, and a test waits for.
///
/// Threads any.
class awaited {
protected:
  /// False if it does not come true in a time that is far too long.
  template <class Predicate>
  bool wait_until(Predicate is_true) {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, std::chrono::seconds{60}, is_true);
  }
  template <class Work>
  decltype(auto) locked(Work work) {
    const std::lock_guard guard(mutex_);
    changed_.notify_all();
    return work();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The layers above a session whose network has a thread of its own.
///
/// Threads any.
class awaited_layers final : public session_events, awaited {
public:
  session* own = nullptr;          ///< set before any event
  std::string from{};              ///< of a server's guest: where it comes from
  std::atomic<bool> echoes{false}; ///< sends every message back
  std::atomic<bool> gives_credit{true};
  std::atomic<int> loans{0};             ///< bodies that came without being moved
  std::atomic<int>* under_way = nullptr; ///< counts the bodies that are arriving, if it is there

  template <class Predicate>
  bool wait_for(Predicate is_true) {
    return wait_until([&] { return is_true(kept_); });
  }
  bool wait_messages(std::size_t count) {
    return wait_for([&](auto& x) { return x.messages.size() == count; });
  }
  /// False if it ends first.
  bool wait_bodies(std::size_t count) {
    wait_for([&](auto& x) { return x.bodies.size() == count || !x.ends.empty(); });
    return bodies() == count;
  }
  /// False if it ends first.
  bool wait_joined() {
    wait_for([](auto& x) { return x.joins > 0 || !x.ends.empty(); });
    return locked([this] { return kept_.joins > 0; });
  }
  std::string wait_ended() {
    wait_for([](auto& x) { return !x.ends.empty(); });
    return locked([this] { return kept_.ends.empty() ? std::string() : kept_.ends.front().words; });
  }
  std::size_t bodies() {
    return locked([this] { return kept_.bodies.size(); });
  }
  /// All of it; not while a body is arriving.
  played_layers kept() {
    return locked([this] { return kept_; });
  }

  void joined(const welcome& terms) override { note(&played_layers::joined, terms); }
  void message_came(byte_view message) override {
    note(&played_layers::message_came, message);
    if (gives_credit) own->allow(1, 0);
    if (echoes) own->send(bytes(message.begin(), message.end()));
  }
  std::span<std::byte> place_of_body(byte_view tag, std::uint64_t size) override {
    if (under_way) ++*under_way;
    return locked([&] { return kept_.place_of_body(tag, size); });
  }
  void body_came(byte_view tag) override {
    if (under_way) --*under_way;
    note(&played_layers::body_came, tag);
    if (gives_credit) own->allow(0, 1);
  }
  bool body_lent(byte_view tag, const borrowed& body, std::uint64_t number) override {
    ++loans;
    return session_events::body_lent(tag, body, number);
  }
  void held(bool is_held) override { note(&played_layers::held, is_held); }
  void credit_came() override { note(&played_layers::credit_came); }
  void ended(const ending& why) override { note(&played_layers::ended, why); }

private:
  template <class Event, class... Told>
  void note(Event event, const Told&... told) {
    locked([&] { (kept_.*event)(told...); });
  }

  played_layers kept_;
};

/// A server for tests: takes in workers, and keeps what each of them said. Its network outlives it.
///
/// Threads guest() and refused() of any; the rest as a doorkeeper's.
class awaited_server final : public doorkeeper, awaited {
public:
  explicit awaited_server(server_options options = {}) : end(with_defaults(std::move(options)), *this) {}
  ~awaited_server() override { forget(); }
  awaited_server(const awaited_server&) = delete;
  awaited_server& operator=(const awaited_server&) = delete;

  /// Where others connect to it, until it is forgotten.
  std::string listen(network& net, const std::string& address) {
    std::string at = net.listen(end, address);
    net_ = &net;
    return at;
  }
  void post(std::function<void(instant)> work) { net_->post(end, std::move(work)); }
  void leave_all(const std::string& words) {
    post([this, words](instant now) { end.leave_all(words, now); });
  }
  void forget() {
    if (net_) std::exchange(net_, nullptr)->forget(end);
  }
  std::size_t connections() {
    std::promise<std::size_t> count;
    post([&](instant) { count.set_value(end.connections()); });
    return count.get_future().get();
  }

  /// The nth who was let in, once it has joined. Null if it does not come.
  awaited_layers* guest(std::size_t nth) {
    if (!wait_until([&] { return guests_.size() > nth; })) return nullptr;
    awaited_layers* const came = locked([&] { return guests_[nth].get(); });
    return came->wait_joined() ? came : nullptr;
  }
  std::string refused(std::size_t nth) { return turned_away_as(nth).first; }
  std::string refused_from(std::size_t nth) { return turned_away_as(nth).second; }

  std::atomic<int>* under_way = nullptr; ///< what the layers of each guest get

private:
  static server_options with_defaults(server_options o) {
    o.slots = {{role::worker, 64}, {role::shard, 64}};
    if (o.run == 0) o.run = 7;
    o.draw = [random = std::mt19937_64{1}]() mutable { return random(); };
    return o;
  }
  session_events& let_in(session& s, const std::string& from) override {
    auto made = std::make_unique<awaited_layers>();
    made->own = &s;
    made->from = from;
    made->under_way = under_way;
    return locked([&]() -> awaited_layers& { return *guests_.emplace_back(std::move(made)); });
  }
  void turned_away(const refusal& why, const std::string& from) override {
    locked([&] { refusals_.emplace_back(why.words(), from); });
  }
  std::pair<std::string, std::string> turned_away_as(std::size_t nth) {
    using words = std::pair<std::string, std::string>;
    const bool came = wait_until([&] { return refusals_.size() > nth; });
    return locked([&] { return came ? refusals_[nth] : words(); });
  }

  network* net_ = nullptr;
  std::vector<std::unique_ptr<awaited_layers>> guests_;
  std::vector<std::pair<std::string, std::string>> refusals_;

public:
  server_end end;
};

/// A client for tests. Its network outlives it.
struct awaited_client {
  explicit awaited_client(network& net, hello says = {})
      : end(std::move(says), layers, net.now()), net_(&net) {
    layers.own = &end.own();
  }
  awaited_client(network& net, const std::string& address, hello says = {})
      : awaited_client(net, std::move(says)) {
    connect(address);
  }
  ~awaited_client() { forget(); }
  awaited_client(const awaited_client&) = delete;
  awaited_client& operator=(const awaited_client&) = delete;

  void connect(const std::string& address) { net_->connect(end, address); }
  void post(std::function<void(instant)> work) { net_->post(end, std::move(work)); }
  void send(const std::string& text) {
    post([this, text](instant) { end.own().send(bytes_of(text)); });
  }
  void send_body(const std::string& tag, const std::shared_ptr<const bytes>& body) {
    post([=, this](instant) { end.own().send_body(bytes_of(tag), *body, body); });
  }
  void leave(const std::string& words) {
    post([this, words](instant now) { end.own().leave(words, now); });
  }
  void forget() {
    if (net_) std::exchange(net_, nullptr)->forget(end);
  }

  awaited_layers layers;
  client_end end;

private:
  network* net_;
};

/// Room for so many bodies, which guests of a server share.
struct room_for_bodies {
  static constexpr std::size_t any_number = 1000;

  bool has_room() const { return allowed == any_number || came() < allowed; }
  /// Bodies that have come or are coming.
  std::size_t came() const {
    auto all = static_cast<std::size_t>(under_way.load());
    for (awaited_layers* const g : guests) all += g->bodies();
    return all;
  }
  /// Room for one more, until it is taken.
  void take_one(awaited_server& server) {
    const std::size_t most = allowed + 1;
    server.post([this, most](instant) { allowed = most; }); // between two turns
    while (came() < most || under_way > 0) std::this_thread::yield();
  }

  std::atomic<std::size_t> allowed{any_number};
  std::atomic<int> under_way{0};
  std::vector<awaited_layers*> guests;
};

inline std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

} // namespace mailgrad::net
