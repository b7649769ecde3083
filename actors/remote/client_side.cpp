#include <mailgrad/actors/remote/client_side.hpp>

#include <utility>

namespace mailgrad::remote {

client_side::client_side(std::shared_ptr<net::network> by, net::hello says, link_events told)
    : network_(std::move(by)) {
  link_events events;
  events.on_joined = [this, on_joined = std::move(told.on_joined)](const net::welcome& terms) {
    if (on_joined) on_joined(terms);
    const std::lock_guard lock(mutex_);
    terms_ = terms;
    changed_.notify_all();
  };
  events.on_ended = [this, on_ended = std::move(told.on_ended)](const net::ending& why) {
    if (on_ended) on_ended(why);
    const std::lock_guard lock(mutex_);
    ended_ = why;
    changed_.notify_all();
  };
  link_ = std::make_shared<link>(*network_, std::move(events));
  end_ = std::make_unique<net::client_end>(std::move(says), *link_, network_->now());
  link_->attach(*end_, end_->own());
}

client_side::~client_side() { close("the process has left"); }

void client_side::join(const std::string& address) {
  connect(address);
  if (const auto failed = wait_until_in()) throw join_error(*failed);
}

void client_side::connect(const std::string& address) {
  const std::lock_guard lock(connecting_);
  if (!closed_) network_->connect(*end_, address);
}

std::optional<net::ending> client_side::wait_until_in() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return terms_ || ended_; });
  return terms_ ? std::nullopt : ended_; // one that is in may have ended since
}

std::optional<net::welcome> client_side::terms() const {
  const std::lock_guard lock(mutex_);
  return terms_;
}

std::optional<net::ending> client_side::outcome() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool client_side::wait_for(std::chrono::milliseconds span) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [this] { return ended_.has_value(); });
}

net::ending client_side::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_.has_value(); });
  return *ended_;
}

void client_side::leave(const std::string& words) {
  link_->leave(words);
  close(words);
}

void client_side::close(const std::string& words) {
  {
    const std::lock_guard lock(connecting_); // or else a connection could begin behind the end
    if (closed_.exchange(true)) return;
    network_->forget(*end_);
  }
  link_->give_up(words);
}

} // namespace mailgrad::remote
