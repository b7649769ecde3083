#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/mpi/mpi_loop.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad::net {

namespace {

constexpr std::size_t most_received_bytes = frame_header_bytes + most_piece_bytes;

} // namespace

/// The body is received at once, since its place may be gone after any other event of the session. It is a
/// piece at most, and the sender has all of it.
bool mpi_connection::read(endpoint* at, instant now) {
  if (ended_) return false;
  const auto message = mpi_->look(route_.peer, route_.in);
  if (!message) return false;
  const std::size_t count = message->bytes;
  if (count > most_received_bytes) {
    ended_ = true;
    throw protocol_error(
        fmt::format("mpi: expected messages of at most {} bytes, found {}", most_received_bytes, count));
  }
  const std::span<std::byte> place = at && count > 0 ? at->place(id_) : std::span<std::byte>{};
  if (count > 0 && place.size() >= count) {
    mpi_->receive(route_.peer, route_.in, place.first(count));
    at->filled(id_, count, now);
    return true;
  }
  scratch_.resize(count);
  mpi_->receive(route_.peer, route_.in, scratch_);
  if (count == 0)
    ended_ = true;
  else if (at)
    at->received(id_, scratch_, now);
  return true;
}

void mpi_connection::send(outgoing frame) {
  under_way& u = sent_.emplace_back();
  u.frame = std::move(frame);
  const byte_view content = u.frame.content();
  under_way_ += content.size();
  if (content.size() > most_joined_bytes) {
    u.parts[0] = send_part(u.frame.header);
    u.parts[1] = send_part(content);
    return;
  }
  u.joined.reserve(frame_header_bytes + content.size());
  u.joined.assign(u.frame.header.begin(), u.frame.header.end());
  u.joined.insert(u.joined.end(), content.begin(), content.end());
  u.parts[0] = send_part(u.joined);
}

mpi_connection::part mpi_connection::send_part(byte_view data) {
  return {mpi_->send(route_.peer, route_.out, data), false};
}

bool mpi_connection::let_go() {
  bool any = false;
  while (!sent_.empty() && is_gone(sent_.front())) {
    under_way_ -= sent_.front().frame.content().size();
    sent_.pop_front();
    any = true;
  }
  return any;
}

bool mpi_connection::is_gone(under_way& frame) {
  for (part& p : frame.parts)
    if (!p.gone && !(p.gone = mpi_->is_done(p.request))) return false;
  return true;
}

void mpi_connection::end() {
  if (std::exchange(said_end_, true)) return;
  sent_.emplace_back().parts[0] = send_part({});
}

namespace {

constexpr int most_messages_a_turn = 16; // of a connection, so the others do not wait for long

} // namespace

void mpi_host::open(connection_ptr c, instant now) {
  connections_.emplace(c->id(), c);
  at_->opened(c->id(), fmt::format("rank {}", c->peer()), now);
}

void mpi_host::fail(connection_id id, std::string_view words, instant now) { at_->closed(id, words, now); }

void mpi_host::find_nobody(std::string_view words, instant now) {
  client_->find_nobody(std::string(words), now);
}

/// What it has to say is sent at once, since the endpoint may be forgotten next.
void mpi_host::work(const std::function<void(instant)>& what, instant now) {
  what(now);
  for (const connection_ptr& c : all())
    if (has(c)) flush(c, now);
}

bool mpi_host::turn(instant now) {
  if (!at_) return false;
  bool any = false;
  for (const connection_ptr& c : all())
    if (has(c)) any |= read(c, now);
  // A client's time begins with its first connection, since the server may be waited for.
  if (at_ && !(client_ && connections_.empty()) && now >= at_->deadline()) {
    at_->tick(now);
    any = true;
  }
  if (client_ && client_->wants_bulk()) hooks_.dial(*this, now);
  for (const connection_ptr& c : all())
    if (has(c)) any |= flush(c, now);
  return any;
}

bool mpi_host::read(const connection_ptr& c, instant now) try {
  int count = 0;
  while (has(c) && count < most_messages_a_turn) {
    if (!at_->reads(c->id(), now)) {
      if (!among_held_.contains(c->id())) among_held_[c->id()] = held_.insert(held_.end(), c->id());
      break;
    }
    if (const auto place = among_held_.extract(c->id())) held_.erase(place.mapped());
    if (!c->read(at_, now)) break;
    ++count;
  }
  if (has(c) && c->has_ended()) lose(c, "closed by the peer", now);
  return count > 0;
} catch (const protocol_error& e) {
  if (has(c)) lose(c, e.what(), now);
  return true;
}

bool mpi_host::flush(const connection_ptr& c, instant now) {
  bool any = c->let_go();
  while (has(c) && c->has_room()) {
    auto frame = at_->next(c->id(), now);
    if (!frame) break;
    c->send(std::move(*frame));
    any = true;
  }
  if (!has(c) || !at_->is_through(c->id())) return any;
  lose(c, "closed here", now);
  return true;
}

/// Its last frames still go, and those of the peer are read and forgotten.
void mpi_host::lose(const connection_ptr& c, std::string_view words, instant now) {
  connections_.erase(c->id());
  c->end();
  hooks_.leave(c);
  at_->closed(c->id(), words, now);
}

void mpi_host::lose_all(std::string_view words, instant now) {
  for (const connection_ptr& c : all()) {
    if (!has(c)) continue;
    connections_.erase(c->id());
    at_->closed(c->id(), words, now);
  }
}

void mpi_host::forget() {
  for (const connection_ptr& c : all()) {
    c->end();
    hooks_.leave(c);
  }
  connections_.clear();
  at_ = nullptr;
  client_ = nullptr;
}

/// Where there is room for some, who waits longest is asked first.
std::vector<mpi_host::connection_ptr> mpi_host::all() {
  std::erase_if(among_held_, [this](const auto& entry) {
    if (connections_.contains(entry.first)) return false;
    held_.erase(entry.second);
    return true;
  });
  std::vector<connection_ptr> here;
  here.reserve(connections_.size());
  for (const connection_id id : held_) here.push_back(connections_.at(id));
  for (const auto& [id, c] : connections_)
    if (!among_held_.contains(id)) here.push_back(c);
  return here;
}

mpi_sums::mpi_sums(mpi_calls& mpi, mpi_calls::place here, std::size_t floats)
    : mpi_(&mpi), me_(static_cast<std::size_t>(here.rank - 1)),
      attendance_(static_cast<std::size_t>(here.size - 1)), floats_(floats) {}

void mpi_sums::add(part p) {
  if (giving_ || left_)
    throw std::runtime_error("mpi: expected one sum of a rank at a time, and none after it has left");
  begin(std::move(p));
}

void mpi_sums::leave() {
  if (std::exchange(left_, true)) return;
  if (!giving_) pass();
}

/// The zeros of the last round are a sum now, in which others may have had numbers.
void mpi_sums::pass() {
  zeros_.assign(floats_, 0);
  begin({zeros_, {}, {}});
}

/// Every rank begins the two sums in this order, by which MPI tells them apart.
void mpi_sums::begin(part p) {
  giving_ = std::move(p);
  std::ranges::fill(attendance_, 0.0F);
  if (giving_->done) attendance_[me_] = 1;
  sums_[0] = {mpi_->begin_sum(attendance_), false};
  sums_[1] = {mpi_->begin_sum(giving_->values), false};
}

bool mpi_sums::turn() {
  if (!giving_) return false;
  for (sum& s : sums_)
    if (!s.done) s.done = mpi_->is_done(s.request);
  if (!std::ranges::all_of(sums_, &sum::done)) return false;
  end_round();
  return true;
}

void mpi_sums::end_round() {
  part given = *std::exchange(giving_, std::nullopt);
  given.keeps.reset(); // whoever is told may want to be alone with the memory
  const all_reduce::givers who(attendance_.begin(), attendance_.end());
  over_ = std::ranges::count(who, true) == 0;
  if (left_ && !over_) pass();
  if (given.done) given.done(who);
}

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
