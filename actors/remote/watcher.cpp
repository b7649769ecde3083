#include <mailgrad/actors/remote/watcher.hpp>

#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/net/usual_network.hpp>

namespace mailgrad::remote {

using messaging::send_anonymously, messaging::spawn;

namespace {

/// Hands answers to who waits for them.
class answer_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.answer-handler";

  answer_handler(caf::event_based_actor* self, std::function<void(const run_answered&)> take)
      : actor_part(self), take_(std::move(take)) {}

  caf::behavior make_behavior() {
    return {
        on([this](const run_answered& x) { take_(x); }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  std::function<void(const run_answered&)> take_;
};

} // namespace

class watcher::implementation {
public:
  implementation(const std::string& address, std::shared_ptr<net::network> network)
      : home_({{device_kind::cpu, 0}}),
        client_(network ? std::move(network) : net::usual_network(address),
                net::hello{.part = net::role::watcher}, {{}, [this](const net::ending&) {
                                                           const std::lock_guard lock(mutex_);
                                                           over_ = true;
                                                           changed_.notify_all();
                                                         }}) {
    handler_ = spawn<answer_handler>(home_.system(), [this](const run_answered& x) {
      const std::lock_guard lock(mutex_);
      answer_ = x;
      changed_.notify_all();
    });
    client_.way()->add({duty::host}, handler_);
    try {
      client_.join(address);
    } catch (...) {
      end();
      throw;
    }
  }
  ~implementation() {
    client_.way()->leave("the watcher has seen enough");
    client_.wait_for(std::chrono::milliseconds{500});
    end();
  }

  std::string ask(const std::string& what, const std::string& argument, std::chrono::milliseconds span) {
    std::unique_lock lock(mutex_);
    answer_.reset();
    const std::uint64_t number = ++asked_;
    lock.unlock();
    client_.way()->tell_host(run_asked{number, what, argument});
    lock.lock();
    changed_.wait_for(lock, span, [&] { return over_ || (answer_ && answer_->number == number); });
    const bool answered = answer_ && answer_->number == number;
    if (!answered && over_ && what == "stop")
      return "the run has ended"; // sooner than its answer could leave
    if (!answered)
      throw std::runtime_error(over_ ? "the run ended before it answered" : "the run does not answer");
    if (answer_->refused) throw std::invalid_argument(answer_->text);
    return answer_->text;
  }

  std::uint32_t devices_per_worker() const { return client_.terms()->devices; } // it has joined

private:
  void end() {
    client_.close("the watcher has left");
    send_anonymously(handler_, give_up{});
    handler_ = nullptr;
    home_.wait();
  }

  std::mutex mutex_; ///< guards the four members below
  std::condition_variable changed_;
  std::optional<run_answered> answer_;
  std::uint64_t asked_ = 0;
  bool over_ = false;

  run_home home_;
  client_side client_;
  caf::actor handler_;
};

watcher::watcher(const std::string& address, std::shared_ptr<net::network> network)
    : self_(std::make_unique<implementation>(address, std::move(network))) {}
watcher::~watcher() = default;

std::string watcher::ask(const std::string& what, const std::string& argument,
                         std::chrono::milliseconds span) {
  return self_->ask(what, argument, span);
}
std::uint32_t watcher::devices_per_worker() const { return self_->devices_per_worker(); }

} // namespace mailgrad::remote
