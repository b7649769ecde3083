#include <mailgrad/actors/remote/parameter_host.hpp>

#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/remote/shard_host.hpp>
#include <mailgrad/actors/run/run_home.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn;

namespace {

net::hello hello_of_host() {
  net::hello says;
  says.part = net::role::shard;
  return says;
}

} // namespace

class parameter_host::implementation {
public:
  implementation(const std::string& address, parameter_host_options options);
  ~implementation();

  const client_side& client() const { return client_; }
  void leave(const std::string& why) { client_.way()->leave(why); }

private:
  /// On the network's thread: the run has ended.
  void end() {
    const std::lock_guard lock(mutex_);
    if (host_) send_anonymously(host_, give_up{});
  }
  void end_actors();
  net::timing times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }

  mutable std::mutex mutex_; ///< guards the two members below
  net::timing times_{};
  caf::actor host_;

  run_home home_;
  client_side client_;
};

parameter_host::implementation::implementation(const std::string& address, parameter_host_options options)
    : home_({{device_kind::cpu, 0}}),
      client_(options.network ? options.network : net::usual_network(address), hello_of_host(),
              {[this](const net::welcome& terms) {
                 const std::lock_guard lock(mutex_);
                 times_ = terms.times;
               },
               [this](const net::ending&) { end(); }}) {
  shard_host_options with{client_.way(),  client_.network(),
                          options.listen, [this] { return times(); },
                          options.time,   std::move(options.on_begin)};
  with.on_event = std::move(options.on_event);
  with.plugins = std::move(options.plugins);
  with.parameter_actor = std::move(options.parameter_actor);
  if (!with.on_begin) with.on_begin = [](const auto&, const auto&) {};
  {
    const std::lock_guard lock(mutex_);
    host_ = spawn<shard_host>(home_.system(), std::move(with));
  }
  client_.way()->add({duty::host}, host_);
  try {
    client_.join(address);
  } catch (...) {
    end_actors();
    throw;
  }
}

parameter_host::implementation::~implementation() {
  leave("its process has ended");
  client_.wait_for(most_farewell);
  end_actors();
}

void parameter_host::implementation::end_actors() {
  client_.close("its process has ended");
  end();
  {
    const std::lock_guard lock(mutex_);
    host_ = nullptr;
  }
  home_.wait();
}

parameter_host::parameter_host(const std::string& address, parameter_host_options options)
    : self_(std::make_unique<implementation>(address, std::move(options))) {}
parameter_host::~parameter_host() = default;

std::string parameter_host::name() const {
  const auto terms = self_->client().terms();
  return terms ? fmt::format("{} (incarnation {})", to_string(terms->you), terms->incarnation)
               : "a process that has not joined";
}
bool parameter_host::wait_for(std::chrono::milliseconds span) { return self_->client().wait_for(span); }
net::ending parameter_host::wait() { return self_->client().wait(); }
void parameter_host::leave(const std::string& why) { self_->leave(why); }

} // namespace mailgrad::remote
