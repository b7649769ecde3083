#include <mailgrad/net/mpi/mpi_network.hpp>

#include <mailgrad/net/mpi/mpi_address.hpp>
#include <mailgrad/net/mpi/mpi_loop.hpp>
#include <mailgrad/net/thread_call.hpp>

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

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

} // namespace mailgrad::net
