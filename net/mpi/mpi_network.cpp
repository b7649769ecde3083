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
#include <type_traits>
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

class mpi_network::implementation {
public:
  implementation(std::unique_ptr<mpi_calls> mpi, const mpi_options& o)
      : options_(checked(o)), mpi_(std::move(mpi)), loop_(*mpi_, o.spin, o.on_wait) {
    std::promise<mpi_calls::place> begun;
    auto here = begun.get_future();
    thread_ = std::thread([this, told = std::move(begun)]() mutable { run(told); });
    try {
      here_ = here.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~implementation() {
    loop_.post([this] {
      for (endpoint* const e : std::exchange(known_, {})) loop_.forget(*e);
      loop_.stop(!abandoned_);
    });
    thread_.join();
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  template <class Work>
  std::invoke_result_t<Work> on_thread(Work work) {
    return call_on(thread_, loop_, std::move(work));
  }

  void listen(server_end& server, int rank) {
    if (rank != here_.rank)
      throw std::invalid_argument(fmt::format("mpi: expected {} to listen on this rank, found {}",
                                              mpi_address(here_.rank), mpi_address(rank)));
    on_thread([&] {
      loop_.serve(server);
      known_.insert(&server);
    });
  }
  void connect(client_end& client, int rank) {
    if (rank >= here_.size)
      throw std::invalid_argument(
          fmt::format("mpi: expected one of {} ranks, found {}", here_.size, mpi_address(rank)));
    const instant patience = client.tries_once() ? timing{}.hello() : instant{options_.patience};
    on_thread([&] {
      loop_.connect(client, rank, patience);
      known_.insert(&client);
    });
  }
  void forget(endpoint& e) {
    on_thread([&] {
      loop_.forget(e);
      known_.erase(&e);
    });
  }
  void post(endpoint& e, std::function<void(instant)> work) {
    loop_.post([this, &e, work = std::move(work)] {
      if (mpi_host* const host = loop_.find(e)) host->work(work, loop_.now()); // which may forget it
    });
  }

  std::unique_ptr<all_reduce> join_sums(std::size_t floats) {
    if (here_.rank == 0)
      throw std::invalid_argument("mpi: expected a rank from 1 on to join the sums, found rank 0");
    on_thread([&] { loop_.join_sums(here_, floats); });
    return std::make_unique<sums_of_rank>(loop_, floats);
  }

  const mpi_loop& loop() const noexcept { return loop_; }
  mpi_calls::place here() const noexcept { return here_; }
  void abandon() noexcept { abandoned_ = true; }

private:
  void run(std::promise<mpi_calls::place>& begun) {
    try {
      begun.set_value(mpi_->begin());
    } catch (...) {
      begun.set_exception(std::current_exception());
      return;
    }
    loop_.run();
  }

  mpi_options options_;
  std::unique_ptr<mpi_calls> mpi_;
  mpi_loop loop_;
  mpi_calls::place here_;
  std::set<endpoint*> known_; ///< of the thread
  std::atomic<bool> abandoned_{false};
  std::thread thread_;
};

mpi_network::mpi_network(std::unique_ptr<mpi_calls> mpi, const mpi_options& options)
    : self_(std::make_unique<implementation>(std::move(mpi), options)) {}
mpi_network::~mpi_network() = default;

int mpi_network::rank() const noexcept { return self_->here().rank; }
int mpi_network::size() const noexcept { return self_->here().size; }
std::unique_ptr<all_reduce> mpi_network::join_sums(std::size_t floats) { return self_->join_sums(floats); }
void mpi_network::abandon() noexcept { self_->abandon(); }

std::string mpi_network::listen(server_end& server, const std::string& address) {
  self_->listen(server, parse_mpi_address(address));
  return address;
}
void mpi_network::connect(client_end& client, const std::string& address) {
  self_->connect(client, parse_mpi_address(address));
}
void mpi_network::forget(endpoint& e) { self_->forget(e); }
void mpi_network::post(endpoint& e, std::function<void(instant)> work) { self_->post(e, std::move(work)); }
instant mpi_network::now() const noexcept { return self_->loop().now(); }

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
