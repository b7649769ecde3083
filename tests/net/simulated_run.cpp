#include <mailgrad/tests/net/simulated_run.hpp>

#include <algorithm>

namespace mailgrad::net {

using namespace std::chrono_literals;

/// A process of a worker, which lives for one incarnation.
struct simulated_run::process {
  process(simulated_run& run, std::uint32_t number, std::uint32_t incarnation, std::uint64_t seed)
      : talk(run.net_, run.notes_, checked_talk::client, seed),
        end({.number = number, .incarnation = incarnation}, talk, run.net_.now()), asked_for(incarnation) {
    talk.own = &end.own();
    talk.keeper = &end;
  }

  /// Which one follows. It knows its own if it was let in, and one that took another's place finds out which.
  std::uint32_t next_incarnation(const server_end& server, std::uint32_t number) const {
    if (const welcome& known = end.own().terms(); known.session != 0) return known.incarnation + 1;
    return asked_for == 0 ? 0 : server.incarnations().highest({role::worker, number}) + 1;
  }

  checked_talk talk;
  client_end end;
  std::uint32_t asked_for; ///< 0: whichever comes next
  bool gone = false;
};

simulated_run::simulated_run(std::uint64_t seed, const fault_plan& plan)
    : plan_(plan), random_(seed), net_(seed * 0x9e3779b97f4a7c15 + 1), session_numbers_(1000) {
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

simulated_run::~simulated_run() = default;

weather simulated_run::drawn_weather() {
  weather w;
  w.delay = std::chrono::microseconds{100 + below(40'000)};
  w.jitter = std::chrono::microseconds{below(20'000)};
  w.duplicate = below(2) == 0 ? 0.05 : 0;
  if (plan_.losses) w.loss = 0.02;
  if (plan_.broken) w.drop = w.reorder = w.damage = 0.002;
  return w;
}

session_events& simulated_run::let_in(session& s, const std::string&) {
  auto talk = std::make_unique<checked_talk>(net_, notes_, checked_talk::server, random_());
  talk->own = &s;
  talk->keeper = server_.get();
  talk->is_current = [this, &s, who = s.terms().you, incarnation = s.terms().incarnation] {
    return server_->incarnations().is_current(who, incarnation) && server_->find(who) == &s;
  };
  return *at_server_.emplace_back(std::move(talk));
}

void simulated_run::start(std::uint32_t worker, std::uint32_t incarnation) {
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

const run_notes& simulated_run::play() {
  net_.listen(*server_, "server");
  for (std::uint32_t w = 0; w < workers_.size(); ++w) start(w);
  const instant peace = net_.now() + 3s;
  for (instant moment = net_.now() + between(100, 1000); moment < peace; moment += between(100, 1000))
    plan_fault(moment);
  net_.run_until(peace + 3s); // every fault has an end
  net_.set_weather({});
  net_.run_until(net_.now() + 3s);
  for (const process* p : workers_)
    if (p->end.own().now_is() != session::state::joined) notes_.fault("a worker did not come back in peace");
  ending_ = true;
  for (const auto& t : at_server_) t->quiet = true;
  net_.post(*server_, [this](instant now) { server_->leave_all("the run is over", now); });
  net_.run_until(net_.now() + 2s);
  check_books();
  return notes_;
}

void simulated_run::plan_fault(instant moment) {
  if (!plan_.cuts && !plan_.slow) return;
  net_.at(moment, [this] { fail(static_cast<std::uint32_t>(below(workers_.size()))); });
}

void simulated_run::fail(std::uint32_t worker) {
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

void simulated_run::kill(std::uint32_t worker) {
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
    const session* there = server_->find({role::worker, worker}); // whose place the dead one had been to take
    const bool is_another = there && there->terms().session != number;
    start(worker, is_another ? server_->incarnations().highest({role::worker, worker}) + 1 : 0);
  });
}

void simulated_run::check_noticed(std::uint64_t session, instant died) {
  const instant bound = timing{}.silence() + 2 * (weather_.delay + weather_.jitter) + 10ms;
  net_.at(died + bound, [this, session] {
    if (!notes_.books[session].ends[checked_talk::server] && !server_stood_still_)
      notes_.fault("a death was not noticed in time");
  });
}

void simulated_run::check_books() {
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
                             end->reason == end_reason::out_of_order || end->reason == end_reason::no_credit;
      if (is_breach && !plan_.broken) notes_.fault("a peer that kept the protocol was blamed: " + end->words);
      if (!is_peaceful && !plan_.cuts && !plan_.losses && !plan_.broken)
        notes_.fault("a session ended for no reason: " + end->words);
    }
  }
}

void simulated_run::check_reasons(const session_book& b) {
  if (!b.ends[0] || !b.ends[1]) return;
  const auto by_itself = [](const ending& e) { return e.words.find(" says: ") == std::string::npos; };
  // Who is told the reason has the same one. Two that end at once, each by itself, may have two.
  if (b.ends[0]->reason != b.ends[1]->reason && !(by_itself(*b.ends[0]) && by_itself(*b.ends[1])))
    notes_.fault("two reasons: " + b.ends[0]->words + " | " + b.ends[1]->words);
  for (const auto& end : b.ends)
    if (end->words.empty() || end->words.find('\n') != std::string::npos)
      notes_.fault("an end without words in one line");
}

} // namespace mailgrad::net
