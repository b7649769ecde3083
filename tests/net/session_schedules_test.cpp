#include <mailgrad/tests/net/simulated_network.hpp>

#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <iostream>

// Sessions over a network that fails as a seed says. MAILGRAD_NET_SCHEDULES is how many seeds each of the
// tests tries, and MAILGRAD_NET_SEED the first of them; else it is a slice of those that a test names.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;

/// AddressSanitizer takes ten times as long. It looks for other faults, which a part of the schedules finds.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t part = 6;
#else
constexpr std::uint64_t part = 1;
#endif

/// What is known of one session from both sides, by those who watch a simulated run.
struct session_book {
  struct way {
    std::uint64_t messages_sent = 0, messages_came = 0, messages_allowed = 0;
    std::uint64_t bodies_sent = 0, bodies_came = 0, bodies_allowed = 0;
  };
  std::array<way, 2> ways; ///< from the client, from the server
  std::array<std::optional<ending>, 2> ends;
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

std::byte pattern(std::uint64_t number, std::size_t i) { return static_cast<std::byte>(number * 31 + i); }

/// One side of a session that talks at drawn moments, and checks all that it hears.
class checked_talk final : public session_events {
public:
  enum side : std::size_t { client = 0, server = 1 };

  checked_talk(simulated_network& net, run_notes& notes, side mine, std::uint64_t seed)
      : net_(&net), notes_(&notes), mine_(mine), random_(seed) {}

  session* own = nullptr;
  endpoint* keeper = nullptr;
  std::function<bool()> is_current = [] { return true; }; ///< whether the fence lets this incarnation speak
  std::function<void()> on_end = [] {};
  bool quiet = false; ///< says nothing more

  /// Its process is gone: it says and does nothing more.
  void die() noexcept { dead_ = true; }

  void joined(const welcome& terms) override {
    terms_ = terms;
    if (book().joined[mine_]) notes_->fault("a session was joined twice");
    book().joined[mine_] = true;
    talk_later();
  }
  void message_came(byte_view message) override {
    check_alive("a message");
    frame_reader reader{"test", message};
    if (reader.u64() != terms_.session) notes_->fault("a message of another session was delivered");
    if (const auto number = reader.u64(); number != in().messages_came)
      notes_->fault("message " + std::to_string(number) + " came in the place of " +
                    std::to_string(in().messages_came));
    ++in().messages_came;
    allow_later(1, 0);
  }
  std::span<std::byte> place_of_body(byte_view, std::uint64_t size) override {
    check_alive("a body");
    place_.assign(size, std::byte{0});
    return place_;
  }
  void body_came(byte_view tag) override {
    check_alive("a body");
    frame_reader reader{"test", tag};
    if (reader.u64() != terms_.session) notes_->fault("a body of another session was delivered");
    const std::uint64_t number = reader.u64();
    if (number != in().bodies_came) notes_->fault("a body came out of order");
    for (std::size_t i = 0; i < place_.size(); i += 997)
      if (place_[i] != pattern(number, i)) notes_->fault("a body has other bytes than were sent");
    ++in().bodies_came;
    allow_later(0, 1);
  }
  void credit_came() override { talk(); }
  void ended(const ending& why) override {
    if (over_) notes_->fault("a session ended twice");
    over_ = true;
    book().ends[mine_] = why;
    notes_->duplicates += own->duplicates();
    on_end();
  }

private:
  session_book& book() { return notes_->books[terms_.session]; }
  session_book::way& out() { return book().ways[mine_]; }
  session_book::way& in() { return book().ways[1 - mine_]; }
  void check_alive(const char* what) {
    if (over_) notes_->fault(std::string(what) + " came after the end");
    if (dead_) notes_->fault(std::string(what) + " came to a dead process");
    if (!is_current()) notes_->fault(std::string(what) + " of a dead incarnation was delivered");
  }
  /// Works for its process at a moment to come, if both of them are still there.
  template <class Work>
  void later(std::chrono::milliseconds wait, Work work) {
    net_->at(net_->now() + wait, [=, this, alive = std::weak_ptr<int>(alive_)] {
      if (alive.expired() || over_ || dead_) return;
      net_->post(*keeper, [=, this](instant) {
        if (!alive.expired() && !over_ && !dead_) work();
      });
    });
  }
  void talk_later() {
    later(std::chrono::milliseconds{1 + below(300)}, [this] {
      if (quiet) return;
      talk();
      talk_later();
    });
  }
  void talk() {
    if (own->now_is() != session::state::joined || quiet) return;
    own->set_progress({out().messages_sent, "nobody"});
    for (std::uint64_t i = below(4); i > 0; --i) say_message();
    if (below(4) == 0) say_body();
  }
  void say_message() {
    bytes message;
    frame_writer{message}.u64(terms_.session).u64(out().messages_sent);
    message.resize(message.size() + below(below(20) == 0 ? 40'000 : 100));
    if (own->send(std::move(message)))
      ++out().messages_sent;
    else if (own->waits().find(" waits for credit of ") == std::string::npos)
      notes_->fault("a sender without credit does not say whom it waits for");
    if (out().messages_sent > terms_.messages + out().messages_allowed)
      notes_->fault("more messages are under way than there is credit for");
  }
  void say_body() {
    bytes tag;
    frame_writer{tag}.u64(terms_.session).u64(out().bodies_sent);
    const std::size_t size = below(20) == 0 ? below(600'000) : below(3000);
    auto memory = std::make_shared<bytes>(size);
    for (std::size_t i = 0; i < size; i += 997) (*memory)[i] = pattern(out().bodies_sent, i);
    if (own->send_body(std::move(tag), *memory, memory)) ++out().bodies_sent;
    if (out().bodies_sent >
        (mine_ == server ? terms_.bodies : terms_.bodies_of_client) + out().bodies_allowed)
      notes_->fault("more bodies are under way than there is credit for");
  }
  void allow_later(std::uint32_t messages, std::uint32_t bodies) {
    later(std::chrono::milliseconds{below(30)}, [=, this] {
      in().messages_allowed += messages;
      in().bodies_allowed += bodies;
      own->allow(messages, bodies);
    });
  }
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

/// Which faults a run may have. The seed draws when, where and how often.
struct fault_plan {
  bool cuts = false;   ///< kill, freeze, cut, leave and another process under the same number
  bool losses = false; ///< frames are sent again
  bool broken = false; ///< frames vanish, change their order or their bits
  bool slow = false;   ///< readers that read slowly
};

/// A server and some workers that talk over a simulated network for some seconds while faults happen, then in
/// peace, and then leave. Whatever breaks a promise is noted.
class simulated_run final : public doorkeeper {
public:
  simulated_run(std::uint64_t seed, const fault_plan& plan)
      : plan_(plan), random_(seed), net_(seed * 0x9e3779b97f4a7c15 + 1) {
    weather_ = drawn_weather();
    net_.set_weather(weather_);
    workers_.resize(1 + below(3));
    server_ = std::make_unique<server_end>(
        server_options{.demands = demands_of({}, {role::worker}, {}),
                       .slots = {{role::worker, static_cast<std::uint32_t>(workers_.size())}},
                       .run = 7,
                       .messages = static_cast<std::uint32_t>(1 + below(8)),
                       .bodies = static_cast<std::uint32_t>(1 + below(3)),
                       .bodies_of_worker = static_cast<std::uint32_t>(1 + below(3)),
                       .most_body_bytes = 1 << 20,
                       .draw = [this] { return ++session_numbers_; }},
        *this);
  }

  const run_notes& play() {
    net_.listen(*server_, "server");
    for (std::uint32_t w = 0; w < workers_.size(); ++w) start(w);
    const instant peace = net_.now() + 3s;
    for (instant moment = net_.now() + between(100, 1000); moment < peace; moment += between(100, 1000))
      if (plan_.cuts || plan_.slow)
        net_.at(moment, [this] { fail(static_cast<std::uint32_t>(below(workers_.size()))); });
    net_.run_until(peace + 3s); // every fault has an end
    net_.set_weather({});
    net_.run_until(net_.now() + 3s);
    for (const process* p : workers_)
      if (p->end.own().now_is() != session::state::joined)
        notes_.fault("a worker did not come back in peace");
    ending_ = true;
    for (const auto& t : at_server_) t->quiet = true;
    net_.post(*server_, [this](instant now) { server_->leave_all("the run is over", now); });
    net_.run_until(net_.now() + 2s);
    check_books();
    return notes_;
  }
  std::uint64_t trace() const noexcept { return net_.trace(); }
  /// How often each reason ended a session, on either side.
  const std::map<end_reason, int>& reasons() const noexcept { return reasons_; }

private:
  /// A process of a worker, which lives for one incarnation.
  struct process {
    process(simulated_run& run, std::uint32_t number, std::uint32_t incarnation, std::uint64_t seed)
        : talk(run.net_, run.notes_, checked_talk::client, seed),
          end({.number = number, .incarnation = incarnation}, talk, run.net_.now()), asked_for(incarnation) {
      talk.own = &end.own();
      talk.keeper = &end;
    }

    /// It knows its own if it was let in, and one that took another's place finds out which.
    std::uint32_t next_incarnation(const server_end& server, std::uint32_t number) const {
      if (const welcome& known = end.own().terms(); known.session != 0) return known.incarnation + 1;
      return asked_for == 0 ? 0 : server.incarnations().highest({role::worker, number}) + 1;
    }

    checked_talk talk;
    client_end end;
    std::uint32_t asked_for; ///< 0: whichever comes next
    bool gone = false;
  };

  session_events& let_in(session& s, const std::string&) override {
    auto talk = std::make_unique<checked_talk>(net_, notes_, checked_talk::server, random_());
    talk->own = &s;
    talk->keeper = server_.get();
    talk->is_current = [this, &s, who = s.terms().you, incarnation = s.terms().incarnation] {
      return server_->incarnations().is_current(who, incarnation) && server_->find(who) == &s;
    };
    return *at_server_.emplace_back(std::move(talk));
  }
  void turned_away(const refusal&, const std::string&) override {}
  void start(std::uint32_t worker, std::uint32_t incarnation = 0) {
    process& p = *processes_.emplace_back(std::make_unique<process>(*this, worker, incarnation, random_()));
    workers_[worker] = &p;
    p.talk.on_end = [this, worker, &p] {
      // As a process does that lives on: it comes back as a new incarnation.
      net_.at(net_.now() + 50ms, [this, worker, &p] {
        if (p.gone || ending_) return;
        p.gone = true;
        net_.forget(p.end);
        if (workers_[worker] == &p) start(worker, p.next_incarnation(*server_, worker));
      });
    };
    net_.connect(p.end, "server");
  }
  void fail(std::uint32_t worker) {
    process& p = *workers_[worker];
    if (p.gone) return;
    const auto later = [&](auto work) {
      net_.at(net_.now() + between(100, 3000), [&p, work] {
        if (!p.gone) work();
      });
    };
    if (!plan_.cuts || (plan_.slow && below(3) == 0)) {
      net_.slow_down(p.end, 2'000 + below(30'000));
      return later([this, &p] { net_.slow_down(p.end, 0); });
    }
    switch (below(7)) {
    case 0:
      return kill(worker);
    case 1:
      net_.freeze(p.end);
      return later([this, &p] { net_.wake(p.end); });
    case 2:
      net_.cut(p.end);
      return later([this, &p] { net_.mend(p.end); });
    case 3:
      net_.cut_outgoing(p.end);
      return later([this, &p] { net_.mend(p.end); });
    case 4:
      return net_.post(p.end, [&p](instant now) { p.end.own().leave("tired", now); });
    case 5: // another process under the same number: whoever was there is superseded
      p.talk.on_end = [this, &p] {
        net_.at(net_.now() + 50ms, [this, &p] {
          p.gone = true;
          net_.forget(p.end);
        });
      };
      return start(worker, server_->incarnations().highest({role::worker, worker}) + 1);
    case 6:
      server_stood_still_ = true;
      net_.freeze(*server_);
      net_.at(net_.now() + between(100, 2300), [this] { net_.wake(*server_); });
    }
  }
  void kill(std::uint32_t worker) {
    process& p = *workers_[worker];
    const std::uint64_t number = p.end.own().terms().session;
    const bool had_joined = notes_.books[number].joined[checked_talk::server];
    p.gone = true;
    p.talk.die();
    if (below(2) == 0) net_.cut(p.end); // with its machine
    net_.kill(p.end);
    if (had_joined && weather_.loss == 0) check_noticed(number, net_.now());
    net_.at(net_.now() + between(10, 2000), [this, worker, number, &p] {
      if (workers_[worker] != &p) return;
      const session* there =
          server_->find({role::worker, worker}); // whose place the dead one had been to take
      const bool is_another = there && there->terms().session != number;
      start(worker, is_another ? server_->incarnations().highest({role::worker, worker}) + 1 : 0);
    });
  }
  void check_noticed(std::uint64_t session, instant died) {
    const instant bound = timing{}.silence() + 2 * (weather_.delay + weather_.jitter) + 10ms;
    net_.at(died + bound, [this, session] {
      if (!notes_.books[session].ends[checked_talk::server] && !server_stood_still_)
        notes_.fault("a death was not noticed in time");
    });
  }
  void check_books() {
    for (const auto& [number, b] : notes_.books) {
      if (number == 0) continue; // of clients that were never welcome
      for (const session_book::way& w : b.ways)
        if (w.messages_came > w.messages_sent || w.bodies_came > w.bodies_sent)
          notes_.fault("more came than was sent");
      check_reasons(b);
      for (const auto& end : b.ends) {
        if (!end) continue;
        ++reasons_[end->reason];
        const bool is_peaceful = end->reason == end_reason::left || end->reason == end_reason::superseded;
        const bool is_breach = end->reason == end_reason::malformed ||
                               end->reason == end_reason::out_of_order ||
                               end->reason == end_reason::no_credit;
        if (is_breach && !plan_.broken)
          notes_.fault("a peer that kept the protocol was blamed: " + end->words);
        if (!is_peaceful && !plan_.cuts && !plan_.losses && !plan_.broken)
          notes_.fault("a session ended for no reason: " + end->words);
      }
    }
  }
  void check_reasons(const session_book& b) {
    if (!b.ends[0] || !b.ends[1]) return;
    const auto by_itself = [](const ending& e) { return e.words.find(" says: ") == std::string::npos; };
    // Who is told the reason has the same one. Two that end at once, each by itself, may have two.
    if (b.ends[0]->reason != b.ends[1]->reason && !(by_itself(*b.ends[0]) && by_itself(*b.ends[1])))
      notes_.fault("two reasons: " + b.ends[0]->words + " | " + b.ends[1]->words);
    for (const auto& end : b.ends)
      if (end->words.empty() || end->words.find('\n') != std::string::npos)
        notes_.fault("an end without words in one line");
  }
  weather drawn_weather() {
    weather w;
    w.delay = std::chrono::microseconds{100 + below(40'000)};
    w.jitter = std::chrono::microseconds{below(20'000)};
    w.duplicate = below(2) == 0 ? 0.05 : 0;
    if (plan_.losses) w.loss = 0.02;
    if (plan_.broken) w.drop = w.reorder = w.damage = 0.002;
    return w;
  }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::chrono::milliseconds between(int least, int most) {
    return std::chrono::milliseconds{least +
                                     static_cast<int>(below(static_cast<std::uint64_t>(most - least)))};
  }

  fault_plan plan_;
  std::mt19937_64 random_;
  simulated_network net_;
  weather weather_;
  run_notes notes_;
  std::map<end_reason, int> reasons_;
  std::uint64_t session_numbers_ = 1000;
  std::unique_ptr<server_end> server_;
  std::vector<std::unique_ptr<checked_talk>> at_server_;
  std::vector<std::unique_ptr<process>> processes_; ///< also those that are gone
  std::vector<process*> workers_;                   ///< which process is each worker now
  bool ending_ = false;
  bool server_stood_still_ = false;
};

/// Plays seeds and says of the first that breaks a promise how to repeat it.
std::map<end_reason, int> play_all(const fault_plan& plan, std::uint64_t usual_count) {
  std::map<end_reason, int> reasons;
  const auto seeds =
      mailgrad::testing::slice_or("MAILGRAD_NET_SCHEDULES", "MAILGRAD_NET_SEED", usual_count / part);
  std::uint64_t messages = 0, bodies = 0, duplicates = 0;
  for (const std::uint64_t seed : seeds) {
    simulated_run run{seed, plan};
    const run_notes& notes = run.play();
    EXPECT_THAT(notes.faults, testing::IsEmpty())
        << "repeat by MAILGRAD_NET_SEED=" << seed << " MAILGRAD_NET_SCHEDULES=1";
    if (!notes.faults.empty()) break;
    for (const auto& [why, times] : run.reasons()) reasons[why] += times;
    for (const auto& [number, b] : notes.books)
      for (const auto& w : b.ways) messages += w.messages_came, bodies += w.bodies_came;
    duplicates += notes.duplicates;
  }
  std::cout << seeds.size() << " schedules, " << messages << " messages, " << bodies << " bodies, "
            << duplicates << " duplicates";
  for (const auto& [why, times] : reasons) std::cout << ", " << times << " " << to_string(why);
  std::cout << "\n";
  return reasons;
}

TEST(SessionSchedules, InGoodWeatherEndBecauseSomebodyLeaves) {
  const auto reasons = play_all({}, 150);
  EXPECT_EQ(reasons.size(), 1U);
}

TEST(SessionSchedules, OutliveSlowReaders) { play_all({.slow = true}, 150); }

TEST(SessionSchedules, KeepTheirPromisesWhenPeersDieFreezeAndComeBack) {
  const auto reasons = play_all({.cuts = true, .slow = true}, 1200);
  for (const end_reason r : {end_reason::left, end_reason::silent, end_reason::lost, end_reason::superseded})
    EXPECT_GT(reasons.count(r), 0U) << "no schedule ended a session as " << to_string(r);
}

TEST(SessionSchedules, KeepTheirPromisesWhenFramesAreLostAndSentAgain) {
  play_all({.cuts = true, .losses = true, .slow = true}, 600);
}

TEST(SessionSchedules, KeepTheirPromisesOnANetworkThatBreaksItsOwn) {
  const auto reasons = play_all({.cuts = true, .losses = true, .broken = true}, 600);
  for (const end_reason r : {end_reason::malformed, end_reason::out_of_order})
    EXPECT_GT(reasons.count(r), 0U) << "no schedule ended a session as " << to_string(r);
}

TEST(SessionSchedules, OfOneSeedAreTheSame) {
  const fault_plan plan{.cuts = true, .losses = true, .broken = true, .slow = true};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    simulated_run one{seed, plan}, again{seed, plan}, other{seed + 100, plan};
    one.play();
    again.play();
    other.play();
    EXPECT_EQ(one.trace(), again.trace());
    EXPECT_NE(one.trace(), other.trace());
  }
}

} // namespace
} // namespace mailgrad::net
