#include <mailgrad/actors/remote/membership.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/link.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/actors/run/run_home.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn;

namespace {

/// How long an owner that goes away waits for the last words of its worker.
constexpr std::chrono::seconds most_farewell{2};

net::hello hello_of(const join_options& o) {
  net::hello says;
  says.part = net::role::worker;
  says.number = o.number;
  return says;
}

std::shared_ptr<net::network> network_of(const join_options& o) {
  return o.network ? o.network : std::make_shared<net::tcp_network>();
}

} // namespace

class membership::implementation {
public:
  implementation(const std::string& address, join_options options);
  ~implementation();

  std::string name() const;
  caf::actor worker() const {
    const std::lock_guard lock(mutex_);
    return worker_;
  }
  worker_peers peers() const {
    const std::lock_guard lock(mutex_);
    return peers_;
  }
  bool wait_for_begin(std::chrono::milliseconds span) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return worker_ || ended_; });
  }
  bool wait_for(std::chrono::milliseconds span) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return ended_.has_value(); });
  }
  net::ending wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_.has_value(); });
    return *ended_;
  }
  void leave();

private:
  link_events events();
  void join(const std::string& address);

  mutable std::mutex mutex_; ///< guards the four members below
  std::condition_variable changed_;
  std::optional<net::welcome> terms_;
  std::optional<net::ending> ended_;
  caf::actor worker_;
  worker_peers peers_;

  std::shared_ptr<net::network> network_;
  std::unique_ptr<net::client_end> end_;
  run_home home_; ///< destroyed after the members below, which hold actors
  std::shared_ptr<link> by_;
  caf::actor host_;
};

membership::implementation::implementation(const std::string& address, join_options options)
    : network_(network_of(options)), home_({options.place}) {
  by_ = std::make_shared<link>(*network_, events());
  end_ = std::make_unique<net::client_end>(hello_of(options), *by_, network_->now());
  by_->attach(*end_, end_->own());
  worker_host_options host{by_, options.place, std::move(options.known), options.time,
                           [this](const caf::actor& worker, const worker_peers& peers) {
                             const std::lock_guard lock(mutex_);
                             worker_ = worker;
                             peers_ = peers;
                             changed_.notify_all();
                           }};
  host_ = spawn<worker_host>(home_.system(), std::move(host));
  by_->add({duty::host}, host_);
  try {
    join(address);
  } catch (...) {
    network_->forget(*end_);
    by_->give_up("it did not join");
    send_anonymously(host_, give_up{});
    host_ = nullptr;
    home_.wait();
    throw;
  }
}

link_events membership::implementation::events() {
  return {[this](const net::welcome& terms) {
            const std::lock_guard lock(mutex_);
            terms_ = terms;
            changed_.notify_all();
          },
          [this](const net::ending& why) {
            const std::lock_guard lock(mutex_);
            ended_ = why;
            if (worker_) send_anonymously(worker_, give_up{});
            send_anonymously(host_, give_up{});
            changed_.notify_all();
          }};
}

void membership::implementation::join(const std::string& address) {
  network_->connect(*end_, address);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return terms_ || ended_; });
  if (ended_) throw join_error(ended_->words);
}

membership::implementation::~implementation() {
  leave();
  wait_for(most_farewell);
  network_->forget(*end_);
  by_->give_up("the process has left");
  {
    const std::lock_guard lock(mutex_);
    for (const caf::actor& a : {worker_, host_})
      if (a) send_anonymously(a, give_up{});
    worker_ = nullptr;
    peers_ = {};
  }
  host_ = nullptr;
  home_.wait();
}

std::string membership::implementation::name() const {
  const std::lock_guard lock(mutex_);
  return to_string(terms_->you) + " (incarnation " + std::to_string(terms_->incarnation) + ")";
}

void membership::implementation::leave() {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  const caf::actor worker = worker_;
  lock.unlock();
  if (worker)
    send_anonymously(worker, give_up{});
  else
    by_->leave("it left before it had begun");
}

membership::membership(const std::string& address, join_options options)
    : self_(std::make_unique<implementation>(address, std::move(options))) {}
membership::~membership() = default;

std::string membership::name() const { return self_->name(); }
caf::actor membership::worker() const { return self_->worker(); }
worker_peers membership::peers() const { return self_->peers(); }
bool membership::wait_for_begin(std::chrono::milliseconds span) { return self_->wait_for_begin(span); }
bool membership::wait_for(std::chrono::milliseconds span) { return self_->wait_for(span); }
net::ending membership::wait() { return self_->wait(); }
void membership::leave() { self_->leave(); }

} // namespace mailgrad::remote
