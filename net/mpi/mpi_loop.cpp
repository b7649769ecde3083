#include <mailgrad/net/mpi/mpi_loop.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad::net {

namespace {

constexpr instant least_pause = std::chrono::microseconds{20};
constexpr instant most_pause = std::chrono::milliseconds{1};

} // namespace

void mpi_loop::run() {
  instant busy_at = now();
  while (true) {
    bool busy = false;
    try {
      busy = run_posted();
      if (is_done()) break;
      busy |= turn();
    } catch (const std::runtime_error& e) {
      fall(e.what());
    }
    forgotten_.clear();
    const instant moment = now();
    if (busy)
      busy_at = moment;
    else if (moment - busy_at >= spin_)
      pause(moment - busy_at);
  }
}

bool mpi_loop::turn() {
  if (is_broken_) return false;
  bool busy = hear();
  std::vector<endpoint*> here; // a host may come or go meanwhile
  for (const auto& [e, host] : hosts_) here.push_back(e);
  for (endpoint* const e : here)
    if (mpi_host* const host = find(*e)) busy |= host->turn(now());
  give_up_late();
  if (sums_) busy |= sums_->turn();
  return busy | let_go();
}

bool mpi_loop::run_posted() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard guard(mutex_);
    work.swap(posted_);
  }
  for (const auto& each : work) try {
      each();
    } catch (const std::runtime_error& e) {
      fall(e.what());
    }
  return !work.empty();
}

void mpi_loop::pause(instant idle) {
  const instant most = sums_ && sums_->is_under_way() ? least_pause : most_pause;
  const instant longest = std::clamp(idle / 4, least_pause, most);
  std::unique_lock guard(mutex_);
  called_.wait_for(guard, longest, [&] { return !posted_.empty(); });
}

void mpi_loop::post(std::function<void()> work) {
  {
    const std::lock_guard guard(mutex_);
    posted_.push_back(std::move(work));
  }
  called_.notify_one();
}

void mpi_loop::stop(bool with_others) {
  const std::lock_guard guard(mutex_);
  stops_ = true;
  with_others_ = with_others;
}

/// The other ranks may still work, and this one goes on hearing them until all have come to their end.
bool mpi_loop::is_done() {
  bool with_others = true;
  {
    const std::lock_guard guard(mutex_);
    if (!stops_) return false;
    with_others = with_others_;
  }
  if (is_broken_) return true;
  if (!farewell_until_) {
    farewell_until_ = now() + timing{}.farewell();
    patience_until_ = now() + timing{}.hello();
  }
  const bool is_silent = (leaving_.empty() && words_.empty()) || now() >= *farewell_until_;
  if (!is_silent) return false;
  if (!with_others) return true;
  leave_sums();
  if (sums_ && !sums_->is_over()) return false;
  if (!end_) end_ = mpi_->begin_end();
  if (!mpi_->is_done(*end_)) return is_held_up();
  mpi_->end();
  return true;
}

/// Whether the other ranks are not worth waiting for: one of them was lost.
bool mpi_loop::is_held_up() {
  if (!has_served_ || now() < *patience_until_) return false;
  const bool is_lost = !leaving_.empty();
  if (on_wait_ && !std::exchange(has_told_, true))
    on_wait_(
        is_lost
            ? "this rank has ended its work, and waits no longer for a rank that was lost: MPI is left as "
              "it is, and the launcher ends the others"
            : "this rank has ended its work, and waits until all others have, as MPI wants it");
  return is_lost;
}

/// MPI has failed, and by its own rules nothing more of it may be used.
void mpi_loop::fall(const std::string& words) {
  is_broken_ = true;
  std::vector<endpoint*> here;
  for (const auto& [e, host] : hosts_) here.push_back(e);
  for (endpoint* const e : here)
    if (mpi_host* const host = find(*e)) host->lose_all(words, now());
  for (auto& [number, a] : std::exchange(asked_, {}))
    if (a.host) a.host->fail(a.id, words, now());
}

void mpi_loop::serve(server_end& server) {
  if (server_) throw std::invalid_argument("mpi: expected one server for each rank, found another");
  auto& host = hosts_[&server];
  host = std::make_unique<mpi_host>(server, hooks());
  server_ = host.get();
  has_served_ = true;
  for (const asker& who : std::exchange(early_, {})) take_in(who);
}

void mpi_loop::connect(client_end& client, int rank, instant patience) {
  if (is_broken_) throw std::runtime_error("mpi: expected MPI to work, found that it has failed before");
  auto& host = hosts_[&client];
  if (host)
    throw std::invalid_argument("network: expected a client that is not connected, found one that is");
  host = std::make_unique<mpi_host>(client, hooks());
  servers_of_[host.get()] = rank;
  dial(*host, now(), patience);
}

void mpi_loop::forget(endpoint& e) {
  auto found = hosts_.extract(&e);
  if (!found) return;
  mpi_host* const host = found.mapped().get();
  if (host == server_) server_ = nullptr;
  servers_of_.erase(host);
  for (auto& [number, a] : asked_)
    if (a.host == host) a.host = nullptr;
  try {
    host->forget();
  } catch (const std::runtime_error& failed) {
    fall(failed.what());
  }
  forgotten_.push_back(std::move(found.mapped()));
}

mpi_host* mpi_loop::find(endpoint& e) const {
  const auto found = hosts_.find(&e);
  return found == hosts_.end() ? nullptr : found->second.get();
}

mpi_host::hooks mpi_loop::hooks() {
  return {[this](mpi_host& host, instant moment) { dial(host, moment, timing{}.hello()); },
          [this](mpi_host::connection_ptr c) { leaving_.push_back(std::move(c)); }};
}

void mpi_loop::join_sums(mpi_calls::place here, std::size_t floats) {
  if (sums_)
    throw std::invalid_argument("mpi: expected one worker of a rank to join the sums, found another");
  sums_ = std::make_unique<mpi_sums>(*mpi_, here, floats);
}

void mpi_loop::add(mpi_sums::part p) {
  if (!is_broken_ && sums_) sums_->add(std::move(p));
}

void mpi_loop::leave_sums() {
  if (!is_broken_ && sums_) sums_->leave();
}

bool mpi_loop::let_go() {
  bool any = false;
  any |= std::erase_if(words_, [&](word& w) { return mpi_->is_done(w.request); }) > 0;
  for (const auto& c : leaving_) {
    any |= c->let_go();
    while (c->read(nullptr, now())) any = true;
  }
  std::erase_if(leaving_, [](const auto& c) { return c->is_sent() && c->has_ended(); });
  return any;
}

} // namespace mailgrad::net
