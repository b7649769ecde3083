#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/mpi/mpi_loop.hpp>
#include <mailgrad/net/mpi/mpi_network.hpp>
#include <mailgrad/net/thread_call.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

// How connections come to be. A client asks its server's rank for a connection, by a number of its own that
// stands for two tags; the server takes it or refuses it. All of it has the tag 0.

namespace mailgrad::net {

namespace {

const mpi_options& checked(const mpi_options& o) {
  if (o.spin.count() < 0 || o.patience.count() < 0)
    throw std::invalid_argument("mpi network: expected no negative time, found one");
  return o;
}

/// What the worker of this rank has of the sums.
class sums_of_rank final : public all_reduce {
public:
  sums_of_rank(mpi_loop& loop, std::size_t floats) : loop_(&loop), floats_(floats) {}
  ~sums_of_rank() override {
    loop_->post([loop = loop_] { loop->leave_sums(); });
  }
  sums_of_rank(const sums_of_rank&) = delete;
  sums_of_rank& operator=(const sums_of_rank&) = delete;

  void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum done) override {
    if (values.size() != floats_ || !done)
      throw std::invalid_argument(fmt::format(
          "mpi: expected a sum of {} floats and somebody to tell, found {}", floats_, values.size()));
    mpi_sums::part p{values, std::move(keeps), std::move(done)};
    loop_->post([loop = loop_, p = std::move(p)] { loop->add(p); });
  }

private:
  mpi_loop* loop_;
  std::size_t floats_;
};

} // namespace

/// The thread that owns MPI, and the endpoints that it serves.
struct mpi_network::implementation {
  implementation(std::unique_ptr<mpi_calls> of_rank, const mpi_options& o)
      : options(checked(o)), mpi(std::move(of_rank)), loop(*mpi, o.spin, o.on_wait) {
    std::promise<mpi_calls::place> begun;
    auto found = begun.get_future();
    thread = std::thread([this, told = std::move(begun)]() mutable { run(told); });
    try {
      here = found.get();
    } catch (...) {
      thread.join();
      throw;
    }
  }
  ~implementation() {
    loop.post([this] {
      for (endpoint* const e : std::exchange(known, {})) loop.forget(*e);
      loop.stop(!abandoned);
    });
    thread.join();
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  template <class Work>
  void on_thread(Work work) {
    call_on(thread, loop, std::move(work));
  }
  void run(std::promise<mpi_calls::place>& begun) {
    try {
      begun.set_value(mpi->begin());
    } catch (...) {
      begun.set_exception(std::current_exception());
      return;
    }
    loop.run();
  }

  const mpi_options options;
  const std::unique_ptr<mpi_calls> mpi;
  mpi_loop loop;
  mpi_calls::place here;
  std::set<endpoint*> known; ///< of the thread
  std::atomic<bool> abandoned{false};
  std::thread thread;
};

mpi_network::mpi_network(std::unique_ptr<mpi_calls> mpi, const mpi_options& options)
    : self_(std::make_unique<implementation>(std::move(mpi), options)) {}
mpi_network::~mpi_network() = default;

int mpi_network::rank() const noexcept { return self_->here.rank; }
int mpi_network::size() const noexcept { return self_->here.size; }
void mpi_network::abandon() noexcept { self_->abandoned = true; }
instant mpi_network::now() const noexcept { return self_->loop.now(); }

std::unique_ptr<all_reduce> mpi_network::join_sums(std::size_t floats) {
  if (rank() == 0)
    throw std::invalid_argument("mpi: expected a rank from 1 on to join the sums, found rank 0");
  self_->on_thread([&] { self_->loop.join_sums(self_->here, floats); });
  return std::make_unique<sums_of_rank>(self_->loop, floats);
}

std::string mpi_network::listen(server_end& server, const std::string& address) {
  if (const int at = parse_mpi_address(address); at != rank())
    throw std::invalid_argument(fmt::format("mpi: expected {} to listen on this rank, found {}",
                                            mpi_address(rank()), mpi_address(at)));
  self_->on_thread([&] {
    self_->loop.serve(server);
    self_->known.insert(&server);
  });
  return address;
}

void mpi_network::connect(client_end& client, const std::string& address) {
  const int to = parse_mpi_address(address);
  if (to >= size())
    throw std::invalid_argument(
        fmt::format("mpi: expected one of {} ranks, found {}", size(), mpi_address(to)));
  const instant patience = client.tries_once() ? timing{}.hello() : instant{self_->options.patience};
  self_->on_thread([&] {
    self_->loop.connect(client, to, patience);
    self_->known.insert(&client);
  });
}

void mpi_network::forget(endpoint& e) {
  self_->on_thread([&] {
    self_->loop.forget(e);
    self_->known.erase(&e);
  });
}

void mpi_network::post(endpoint& e, std::function<void(instant)> work) {
  self_->loop.post([self = self_.get(), &e, work = std::move(work)] {
    if (mpi_host* const host = self->loop.find(e)) host->work(work, self->loop.now()); // which may forget it
  });
}

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
