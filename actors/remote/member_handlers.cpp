#include <mailgrad/actors/remote/member_handlers.hpp>

namespace mailgrad::remote {

worker_handler::worker_handler(caf::event_based_actor* self, std::shared_ptr<channel> by,
                               std::function<std::string()> write_terms, caf::actor coordinator,
                               std::shared_ptr<const run_verdict> verdict)
    : actor_part(self), by_(std::move(by)), write_terms_(std::move(write_terms)),
      coordinator_(std::move(coordinator)), verdict_(std::move(verdict)) {}

caf::behavior worker_handler::make_behavior() {
  messaging::ignore_others(self_);
  tell_terms();
  return {
      on([this](const worker_leaves& x) { let_go(x); }),
      on([this](const go_on&) {
        by_->end(verdict_->end_of_work(std::string(work_is_done)));
        self_->quit();
      }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

/// A worker whose step has failed leaves at once, and the coordinator may not have read yet that it has.
void worker_handler::let_go(const worker_leaves& x) {
  if (x.early) {
    by_->leave("its owner ended it before the end of the run");
    return self_->quit();
  }
  watch(coordinator_, go_on{}); // it may have ended, and with it the run
  send(coordinator_, verdict_asked{});
}

/// Nobody watches this actor, so the worker is told why it gets no terms.
void worker_handler::tell_terms() const {
  try {
    by_->post({duty::host}, {}, kind_of<terms_given>(), caf::make_message(terms_given{write_terms_()}));
  } catch (const std::exception& e) {
    by_->fail(e.what());
  }
}

shard_handler::shard_handler(caf::event_based_actor* self, std::shared_ptr<channel> by, std::string terms,
                             std::function<void(const std::string&)> ready)
    : actor_part(self), by_(std::move(by)), terms_(std::move(terms)), ready_(std::move(ready)) {}

caf::behavior shard_handler::make_behavior() {
  messaging::ignore_others(self_);
  by_->post({duty::host}, {}, kind_of<terms_given>(),
            caf::make_message(terms_given{std::exchange(terms_, {})}));
  return {
      on([this](const shards_ready& x) {
        if (x.address.empty()) return by_->fail("expected an address of its shards, found none");
        if (ready_) std::exchange(ready_, nullptr)(x.address);
      }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

caf::behavior watcher_handler::make_behavior() {
  messaging::ignore_others(self_);
  return {
      on([this](const run_asked& x) { answer(x); }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

void watcher_handler::answer(const run_asked& x) const {
  run_answered told{x.number, false, {}};
  std::function<void()> then;
  try {
    run_answer found = answers_(x.what, x.argument);
    told.text = std::move(found.text);
    then = std::move(found.then);
  } catch (const std::invalid_argument& e) {
    told.refused = true;
    told.text = e.what();
  }
  by_->post({duty::host}, {}, kind_of<run_answered>(), caf::make_message(std::move(told)));
  if (then) then();
}

namespace {

double seconds_between(net::instant before, net::instant now) {
  return std::chrono::duration<double>(now - before).count();
}

} // namespace

run_member::state state_after(const net::ending& why) {
  if (!is_in_order(why.reason)) return run_member::state::lost;
  const bool done = why.reason == net::end_reason::run_failed || why.words == work_is_done;
  return done ? run_member::state::done : run_member::state::left;
}

void member_list::joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
                         net::instant now) {
  entry& e = all_[terms.you];
  e = {.incarnation = terms.incarnation,
       .since = now,
       .from = from,
       .devices = std::move(devices),
       .losses = e.losses,
       .why = std::move(e.why)};
}

void member_list::ended(const net::welcome& terms, const net::ending& why, net::instant heard,
                        net::instant now) {
  const auto found = all_.find(terms.you);
  if (closed_ || found == all_.end() || found->second.incarnation < terms.incarnation) return;
  entry& e = found->second;
  const run_member::state is = state_after(why);
  const bool lost = is == run_member::state::lost;
  if (lost) ++e.losses;
  if (lost || is == run_member::state::left) e.why = why.words;
  if (e.incarnation != terms.incarnation) return;
  e.is = is;
  e.since = now;
  e.heard = heard;
}

void member_list::close(net::instant now) {
  closed_ = true;
  for (auto& [who, e] : all_) {
    if (e.is != run_member::state::joined) continue;
    e.is = run_member::state::done;
    e.since = now;
  }
}

std::vector<run_member>
member_list::told(net::instant now,
                  const std::function<std::optional<net::instant>(const net::member&)>& heard) const {
  std::vector<run_member> members;
  for (const auto& [who, e] : all_) {
    const auto last = e.is == run_member::state::joined ? heard(who) : e.heard;
    run_member m{std::string(net::to_string(who.part)), who.number, e.incarnation, e.is};
    m.since = seconds_between(e.since, now);
    if (last) m.heard = seconds_between(*last, now);
    m.address = e.from;
    m.devices = e.devices;
    m.shards = e.shards;
    m.losses = e.losses;
    m.why = e.why;
    members.push_back(std::move(m));
  }
  return members;
}

} // namespace mailgrad::remote
