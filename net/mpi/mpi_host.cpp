#include <mailgrad/net/mpi/mpi_host.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace mailgrad::net {

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

} // namespace mailgrad::net
