#include <mailgrad/net/mpi/mpi_loop.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/mpi/mpi_address.hpp>

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

// How connections come to be. A client asks its server's rank for a connection, by a number of its own that
// stands for two tags; the server takes it or refuses it. All of it has the tag 0.

namespace mailgrad::net {

namespace {

constexpr int greeting_tag = 0;
constexpr std::size_t greeting_bytes = 9;
constexpr std::uint32_t greeting_magic = 0x6970'676d; // "mgpi"
constexpr std::uint8_t asks = 1, takes = 2, refuses = 3;
constexpr std::uint32_t most_number = (mpi_calls::most_tag - 1) / 2;

bool is_number(std::uint32_t n) { return n >= 1 && n <= most_number; }

} // namespace

mpi_connection::route mpi_loop::route_to(int rank, std::uint32_t number, bool is_client) const {
  const int up = static_cast<int>(2 * number), down = up + 1;
  return is_client ? mpi_connection::route{rank, up, down} : mpi_connection::route{rank, down, up};
}

void mpi_loop::dial(mpi_host& host, instant moment, instant patience) {
  client_end& client = *host.client();
  const connection_id id{next_id_++};
  if (client.wants_bulk())
    client.begin_bulk(id);
  else
    client.begin_control(id);
  const std::uint32_t number = next_number_++;
  if (!is_number(number))
    return host.fail(
        id, fmt::format("mpi: expected at most {} connections from a rank, found one more", most_number),
        moment);
  const int rank = servers_of_.at(&host);
  asked_.emplace(number, asked{&host, id, rank, moment + patience});
  say(rank, asks, number);
}

bool mpi_loop::hear() {
  bool any = false;
  while (const auto message = mpi_->look(mpi_calls::anybody, greeting_tag)) {
    if (message->bytes != greeting_bytes)
      throw std::runtime_error(fmt::format("mpi: rank {}: expected a greeting of {} bytes, found {}",
                                           message->from, greeting_bytes, message->bytes));
    std::array<std::byte, greeting_bytes> greeting{};
    mpi_->receive(message->from, greeting_tag, greeting);
    hear(message->from, greeting);
    any = true;
  }
  return any;
}

void mpi_loop::hear(int from, byte_view greeting) {
  frame_reader reader{"mpi", greeting};
  const std::uint32_t magic = reader.u32();
  const std::uint8_t what = reader.u8();
  const std::uint32_t number = reader.u32();
  if (magic != greeting_magic || !is_number(number) || what < asks || what > refuses)
    throw std::runtime_error(
        fmt::format("mpi: rank {}: expected a greeting of Mailgrad, found other bytes", from));
  if (what == asks) return answer({from, number});
  const auto found = asked_.find(number);
  if (found != asked_.end() && found->second.rank == from) be_taken(number, what == takes);
}

void mpi_loop::answer(asker who) {
  if (server_) return take_in(who);
  if (has_served_ || farewell_until_) return say(who.rank, refuses, who.number);
  early_.push_back(who);
}

void mpi_loop::take_in(asker who) {
  say(who.rank, takes, who.number);
  server_->open(std::make_shared<mpi_connection>(connection_id{next_id_++}, *mpi_,
                                                 route_to(who.rank, who.number, false)),
                now());
}

void mpi_loop::be_taken(std::uint32_t number, bool taken) {
  const asked a = asked_.extract(number).mapped();
  if (!taken) {
    if (a.host) a.host->find_nobody(fmt::format("nobody listens at {} any more", mpi_address(a.rank)), now());
    return;
  }
  auto made = std::make_shared<mpi_connection>(a.id, *mpi_, route_to(a.rank, number, true));
  if (a.host) return a.host->open(std::move(made), now());
  made->end(); // nobody wants it any more
  leaving_.push_back(std::move(made));
}

/// An answer may still come, so the number stays known.
void mpi_loop::give_up_late() {
  const instant moment = now();
  std::vector<asked> late;
  for (auto& [number, a] : asked_)
    if (a.host && moment >= a.until) {
      late.push_back(a);
      a.host = nullptr;
    }
  for (const asked& a : late)
    if (const auto still = servers_of_.find(a.host); still != servers_of_.end())
      a.host->find_nobody(fmt::format("nobody listens at {}", mpi_address(a.rank)), moment);
}

void mpi_loop::say(int to, std::uint8_t what, std::uint32_t number) {
  word& w = words_.emplace_back();
  frame_writer(w.data).u32(greeting_magic).u8(what).u32(number);
  w.request = mpi_->send(to, greeting_tag, w.data);
}

} // namespace mailgrad::net
