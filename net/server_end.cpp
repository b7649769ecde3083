#include <mailgrad/net/server_end.hpp>

namespace mailgrad::net {

std::variant<std::uint32_t, refusal> fence::admit(const member& m, std::uint32_t wanted) {
  std::uint32_t& highest = highest_[m];
  if (wanted == 0 && highest == UINT32_MAX)
    return refusal{refusal_code::incarnation, fmt::format("fewer than {} of {}", UINT32_MAX, to_string(m)),
                   "as many"};
  if (wanted != 0 && wanted <= highest)
    return refusal{refusal_code::incarnation,
                   fmt::format("{} or later of {}", highest + std::uint64_t{1}, to_string(m)),
                   fmt::format("{}", wanted)};
  if (wanted > highest && wanted - highest > most_missed)
    return refusal{refusal_code::incarnation,
                   fmt::format("at most {} of {}", std::uint64_t{highest} + most_missed, to_string(m)),
                   fmt::format("{}", wanted)};
  return highest = wanted == 0 ? highest + 1 : wanted;
}

std::size_t arrival::receive(byte_view data) {
  std::size_t taken = 0;
  while (!said_ && taken < data.size()) {
    const std::span<std::byte> to = decoder_.room();
    const byte_view now = data.subspan(taken, std::min(to.size(), data.size() - taken));
    std::copy(now.begin(), now.end(), to.begin());
    taken += now.size();
    decoder_.filled(now.size());
  }
  return taken;
}

std::span<std::byte> arrival::place_of(const frame_header& h) {
  if (h.kind != frame_kind::hello || h.sequence != 0)
    throw protocol_error("frame: expected a hello as frame 0, found a {} as frame {}", to_string(h.kind),
                         h.sequence);
  return {};
}

void arrival::take(const frame_header& h, byte_view payload) {
  hello said = to_hello(decode_features("hello", payload));
  // The header says it first, and a peer must not say two things.
  said.says.insert_or_assign(std::string(feature::protocol), std::to_string(h.version));
  said_ = std::move(said);
}

server_end::server_end(server_options options, doorkeeper& keeper)
    : options_(std::move(options)), keeper_(&keeper) {
  if (!options_.draw) throw std::invalid_argument("server: expected a source of session numbers, found none");
}

void server_end::opened(connection_id c, std::string_view from, instant now) {
  if (connections_.empty()) pauses_ = own_pauses(now);
  connection& made = connections_[c];
  made.from = from;
  made.unknown = std::make_unique<arrival>(now + options_.times.hello());
  if (connections_.size() > options_.most_connections) refuse(made, full());
}

std::optional<connection_id> server_end::give_way() {
  if (connections_.size() < options_.most_connections) return std::nullopt;
  const auto waits = [](const auto& entry) { return entry.second.unknown && !entry.second.refused; };
  const auto longest = std::ranges::find_if(connections_, waits);
  if (longest == connections_.end()) return std::nullopt;
  refuse(longest->second, full());
  return longest->first;
}

bool server_end::reads(connection_id id, instant now) {
  const connection* c = at(id);
  if (!c || !c->known || c->part != plane::bulk) return true;
  session& its = c->known->its;
  return its.reads_bulk(!options_.has_room || options_.has_room(its.terms().you), now);
}

bool server_end::reads_behind(connection_id id) {
  const connection* c = at(id);
  const bool asks = options_.has_room && c && c->known && c->part == plane::bulk;
  return !asks || !c->known->its.is_last_place();
}

void server_end::received(connection_id id, byte_view data, instant now) {
  if (!at(id) || at(id)->refused) return;
  connection& c = *at(id);
  if (c.unknown) {
    try {
      data = data.subspan(c.unknown->receive(data));
      if (!c.unknown->said()) return;
      const hello said = *c.unknown->said();
      c.unknown.reset();
      judge(c, said, now);
    } catch (const protocol_error& e) {
      refuse(c, {refusal_code::malformed, "a hello", e.what()});
    }
  }
  if (c.known && !data.empty()) c.known->its.receive(c.part, data, now);
}

std::span<std::byte> server_end::place(connection_id id) {
  const connection* c = at(id);
  return c && c->known ? c->known->its.place(c->part) : std::span<std::byte>{};
}

void server_end::filled(connection_id c, std::size_t count, instant now) {
  const connection& known = connections_.at(c);
  known.known->its.filled(known.part, count, now);
}

void server_end::closed(connection_id c, std::string_view words, instant now) {
  const auto gone = connections_.extract(c);
  if (gone && gone.mapped().known) gone.mapped().known->its.lose(gone.mapped().part, words, now);
}

std::optional<outgoing> server_end::next(connection_id c, instant now) {
  if (!at(c)) return std::nullopt;
  connection& to = *at(c);
  if (to.refusal_frame) {
    outgoing last;
    last.payload = *std::exchange(to.refusal_frame, std::nullopt);
    last.header = header_of({.kind = frame_kind::refusal, .run = options_.run}, last.payload);
    return last;
  }
  return to.known ? to.known->its.next(to.part, now) : std::nullopt;
}

bool server_end::has_ended(connection_id id) const {
  const connection* c = at(id);
  return c && c->known && c->known->its.now_is() == session::state::ended;
}

bool server_end::is_through(connection_id id) const {
  const connection* c = at(id);
  if (!c || c->refused) return !c || !c->refusal_frame;
  return c->known && c->known->its.is_through();
}

void server_end::tick(instant now) {
  const instant pause = pauses_.found(now, options_.times);
  for (auto& [id, c] : connections_)
    if (c.unknown) c.unknown->excuse(pause);
  for (auto& [id, c] : connections_)
    if (c.unknown && !c.refused && now >= c.unknown->late_at())
      refuse(c, {refusal_code::late,
                 fmt::format("a hello within {} ms", 8 * options_.times.heartbeat().count()), "none"});
  std::vector<std::shared_ptr<admitted_peer>> here;
  for (const auto& [who, g] : admitted_) here.push_back(g);
  for (const auto& g : here) g->its.tick(now);
  std::erase_if(admitted_,
                [](const auto& entry) { return entry.second->its.now_is() == session::state::ended; });
}

instant server_end::deadline() const {
  instant first = instant::max();
  for (const auto& [id, c] : connections_)
    if (c.unknown && !c.refused) first = std::min({first, c.unknown->late_at(), pauses_.due(options_.times)});
  for (const auto& [who, g] : admitted_) first = std::min(first, g->its.deadline());
  return first;
}

session* server_end::find(const member& m) noexcept {
  const auto found = admitted_.find(m);
  if (found == admitted_.end() || found->second->its.now_is() == session::state::ended) return nullptr;
  return &found->second->its;
}

void server_end::end(role part, const ending& why, instant now) {
  const auto here = admitted_; // since events may let others in
  for (const auto& [who, g] : here)
    if (who.part == part) g->its.end(why, now);
}

void server_end::leave_all(std::string_view words, instant now) {
  const auto here = admitted_; // since events may let others in
  for (const auto& [who, g] : here) g->its.leave(words, now);
}

void server_end::refuse(connection& c, const refusal& why) {
  c.refused = true;
  c.refusal_frame = encode(why);
  keeper_->turned_away(why, c.from);
}

void server_end::refuse(connection_id id, const refusal& why) {
  if (connection* c = at(id); c && c->unknown && !c->refused) refuse(*c, why);
}

void server_end::judge(connection& c, const hello& said, instant now) {
  if (said.part == role::shard && !c.may_serve)
    return refuse(c, {refusal_code::keys, "a certificate of a parameter host", "one that lets nobody serve"});
  if (said.connection == plane::bulk) return attach_bulk(c, said, now);
  if (const auto wrong = compare(options_.demands, said.says)) return refuse(c, *wrong);
  admit_control(c, said, now);
}

/// Who names no incarnation is not the member that comes back, and must not end one that is there. One that
/// was not heard for two heartbeats may be: a session that is not over yet must not keep out who follows it.
std::optional<refusal> server_end::taken(const hello& said, const member& wanted, instant now) {
  session* there = said.incarnation == 0 ? find(wanted) : nullptr;
  if (!there) return std::nullopt;
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - there->last_heard());
  if (silent >= 2 * options_.times.heartbeat()) return std::nullopt;
  return refusal{
      refusal_code::number, fmt::format("{} to be gone", to_string(wanted)),
      fmt::format("its incarnation {}, heard {} ms ago", there->terms().incarnation, silent.count())};
}

std::optional<refusal> server_end::find_slot(const hello& said, member& found, instant now) {
  const auto slots = options_.slots.find(said.part);
  const std::uint32_t count = slots == options_.slots.end() ? 0 : slots->second;
  found.part = said.part;
  if (said.number) {
    found.number = *said.number;
    if (found.number < count) return taken(said, found, now);
    return refusal{refusal_code::number, fmt::format("one of {} {}s", count, to_string(said.part)),
                   to_string(found)};
  }
  for (found.number = 0; found.number < count; ++found.number)
    if (!find(found)) return std::nullopt;
  if (count == 0)
    return refusal{refusal_code::number, fmt::format("places for {}s", to_string(said.part)),
                   "none in this run"};
  return refusal{refusal_code::number, fmt::format("a free place of {} for {}s", count, to_string(said.part)),
                 "all taken"};
}

void server_end::admit_control(connection& c, const hello& said, instant now) {
  welcome terms{.run = options_.run,
                .times = options_.times,
                .messages = options_.messages,
                .bodies = options_.bodies,
                .bodies_of_client = options_.bodies,
                .most_body_bytes = options_.most_body_bytes,
                .devices = options_.devices};
  if (const auto wrong = find_slot(said, terms.you, now)) return refuse(c, *wrong);
  if (terms.you.part == role::worker)
    terms.bodies_of_client = options_.bodies_of_worker.value_or(options_.bodies);
  const auto incarnation = fence_.admit(terms.you, said.incarnation);
  if (const auto* wrong = std::get_if<refusal>(&incarnation)) return refuse(c, *wrong);
  terms.incarnation = std::get<std::uint32_t>(incarnation);
  do terms.session = options_.draw();
  while (terms.session == 0);
  if (session* before = find(terms.you))
    before->end({end_reason::superseded,
                 fmt::format("{}: incarnation {} took the place of incarnation {}", to_string(terms.you),
                             terms.incarnation, before->terms().incarnation)},
                now);
  const auto newcomer = std::make_shared<admitted_peer>(terms, now, said.says);
  newcomer->its.call_server(options_.name);
  newcomer->its.tell(keeper_->let_in(newcomer->its, c.from));
  c.known = newcomer; // not before there is somebody to tell of its end
  admitted_[terms.you] = c.known;
  c.known->its.attach(plane::control, now);
}

void server_end::attach_bulk(connection& c, const hello& said, instant now) {
  const auto found = std::find_if(admitted_.begin(), admitted_.end(), [&](const auto& entry) {
    return said.session != 0 && entry.second->its.terms().session == said.session;
  });
  if (found == admitted_.end() || found->second->its.now_is() != session::state::greeting ||
      found->second->has_bulk) {
    const std::uint32_t highest = said.number ? fence_.highest({said.part, *said.number}) : 0;
    return refuse(c, {refusal_code::session, "a session that waits for its bulk connection",
                      fmt::format("{} of incarnation {}, when the highest is {}", key_text(said.session),
                                  said.incarnation, highest)});
  }
  c.part = plane::bulk;
  c.known = found->second;
  c.known->has_bulk = true;
  c.known->its.share(std::move(c.memory));
  c.known->its.attach(plane::bulk, now);
}

} // namespace mailgrad::net
