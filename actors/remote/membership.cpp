#include <mailgrad/actors/remote/membership.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/actors/run/run_home.hpp>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn;

namespace {

net::hello hello_of(const join_options& o) {
  net::hello says;
  says.part = net::role::worker;
  says.number = o.number;
  return says;
}

} // namespace

class membership::implementation {
public:
  implementation(const std::string& address, join_options options);
  ~implementation();

  std::string name() const { return client_.name(); }
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
  bool wait_for(std::chrono::milliseconds span) const { return client_.wait_for(span); }
  net::ending wait() const { return client_.wait(); }
  void leave();
  void cut() { client_.close("cut off"); }

private:
  void begin(const caf::actor& worker, const worker_peers& peers);
  void end();
  void end_actors();

  mutable std::mutex mutex_; ///< guards the four members below
  std::condition_variable changed_;
  bool ended_ = false;
  caf::actor worker_;
  worker_peers peers_;
  caf::actor host_;

  run_home home_;
  client_side client_;
};

membership::implementation::implementation(const std::string& address, join_options options)
    : home_({options.place}),
      client_(options.network, hello_of(options), {{}, [this](const net::ending&) { end(); }}) {
  host_ = spawn<worker_host>(home_.system(),
                             worker_host_options{client_.way(), client_.network(), options.place,
                                                 std::move(options.known), options.time,
                                                 [this](const caf::actor& worker, const worker_peers& peers) {
                                                   begin(worker, peers);
                                                 }});
  client_.way()->add({duty::host}, host_);
  try {
    client_.join(address);
  } catch (...) {
    end_actors();
    throw;
  }
}

membership::implementation::~implementation() {
  leave();
  client_.wait_for(most_farewell);
  end_actors();
}

void membership::implementation::begin(const caf::actor& worker, const worker_peers& peers) {
  const std::lock_guard lock(mutex_);
  worker_ = worker;
  peers_ = peers;
  if (ended_) send_anonymously(worker_, give_up{});
  changed_.notify_all();
}

/// On the network's thread. What the worker waits for will not come.
void membership::implementation::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const caf::actor& a : {worker_, host_})
    if (a) send_anonymously(a, give_up{});
  changed_.notify_all();
}

void membership::implementation::end_actors() {
  client_.close("the process has left");
  end();
  {
    const std::lock_guard lock(mutex_);
    worker_ = host_ = nullptr;
    peers_ = {};
  }
  home_.wait();
}

void membership::implementation::leave() {
  const caf::actor now = worker();
  if (now)
    send_anonymously(now, leave_run{});
  else
    client_.way()->leave("it left before it had begun");
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
void membership::cut() { self_->cut(); }

} // namespace mailgrad::remote
