#pragma once

#include <mailgrad/tests/net/simulated_network.hpp>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mailgrad::net {

/// What is known of one session from both sides, by those who watch a simulated run.
struct session_book {
  struct way {
    std::uint64_t messages_sent = 0, messages_came = 0, messages_allowed = 0;
    std::uint64_t bodies_sent = 0, bodies_came = 0, bodies_allowed = 0;
  };
  std::array<way, 2> ways; ///< from the client, from the server
  std::array<std::optional<ending>, 2> ends;
  std::array<instant, 2> ended_at{};
  std::array<bool, 2> joined{};
};

/// What went wrong in a run, and how much was seen.
struct run_notes {
  std::map<std::uint64_t, session_book> books;
  std::vector<std::string> faults;
  std::uint64_t duplicates = 0;

  void fault(std::string what) {
    if (faults.size() < 10) faults.push_back(std::move(what));
  }
};

/// One side of a session that talks at drawn moments, and checks all that it hears.
class checked_talk final : public session_events {
public:
  enum side : std::size_t { client = 0, server = 1 };

  /// `own` and `keeper` may be set later, before any event.
  checked_talk(simulated_network& net, run_notes& notes, side mine, std::uint64_t seed)
      : net_(&net), notes_(&notes), mine_(mine), random_(seed) {}

  session* own = nullptr;
  endpoint* keeper = nullptr;
  std::function<bool()> is_current = [] { return true; }; ///< whether the fence lets this incarnation speak
  std::function<void()> on_end = [] {};
  bool quiet = false; ///< says nothing more

  bool is_over() const noexcept { return over_; }
  /// Its process is gone: it says and does nothing more.
  void die() noexcept { dead_ = true; }

  void joined(const welcome& terms) override;
  void message_came(byte_view message) override;
  std::span<std::byte> place_of_body(byte_view tag, std::uint64_t size) override;
  void body_came(byte_view tag) override;
  void credit_came() override { talk(); }
  void ended(const ending& why) override;

private:
  session_book& book() { return notes_->books[terms_.session]; }
  session_book::way& out() { return book().ways[mine_]; }
  session_book::way& in() { return book().ways[1 - mine_]; }
  void check_alive(const char* what);
  void talk_later();
  void talk();
  void say_message();
  void say_body();
  void allow_later(std::uint32_t messages, std::uint32_t bodies);
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  simulated_network* net_;
  run_notes* notes_;
  side mine_;
  std::mt19937_64 random_;
  welcome terms_;
  bool over_ = false, dead_ = false;
  bytes place_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0); ///< of what is planned
};

} // namespace mailgrad::net
