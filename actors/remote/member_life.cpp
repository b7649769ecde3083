#include <mailgrad/actors/remote/member_life.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <utility>

namespace mailgrad::remote {

using messaging::send_anonymously, messaging::spawn;

member_life::member_life(caf::actor_system& home, options o)
    : address_(o.address), client_(std::move(o.network), std::move(o.says),
                                   {{}, [of = self_](const net::ending&) { of->end(); }}) {
  if (o.tries_once) client_.try_once();
  // A shard may hold a gradient for long, so it stays as it is when the session ends.
  const std::shared_ptr<net::shared_heap> heap = net::heap_for(o.address, std::nullopt);
  client_.lend_from(heap);
  self_->on_change = std::move(o.on_change);
  self_->host = spawn<worker_host>(
      home,
      worker_host_options{
          client_.way(),
          [own = client_.network(), server = o.address](const std::string& at) {
            return net::fitting_network(own, server, at);
          },
          heap, std::move(o.devices), std::move(o.known), std::move(o.plugins), std::move(o.time),
          std::move(o.samples), std::move(o.on_streamed), std::move(o.join_sums), o.card_ends_run,
          [of = self_](const caf::actor& worker, const worker_peers& peers) { of->take(worker, peers); }});
  client_.way()->add({duty::host}, self_->host);
}

member_life::~member_life() { cut("the process has left"); }

void member_life::shared::take(const caf::actor& begun, const worker_peers& its_peers) {
  {
    const std::lock_guard lock(mutex);
    if (ended) return send_anonymously(begun, give_up{});
    worker = begun;
    peers = its_peers;
  }
  on_change();
}

/// On the network's thread, or the owner's. What the worker waits for will not come.
void member_life::shared::end() {
  const std::lock_guard lock(mutex);
  ended = true;
  for (const caf::actor& a : {worker, host})
    if (a) send_anonymously(a, give_up{});
}

caf::actor member_life::worker() const {
  const std::lock_guard lock(self_->mutex);
  return self_->worker;
}

worker_peers member_life::peers() const {
  const std::lock_guard lock(self_->mutex);
  return self_->peers;
}

void member_life::leave() {
  caf::actor host;
  {
    const std::lock_guard lock(self_->mutex);
    if (self_->worker) host = self_->host;
  }
  if (host)
    send_anonymously(host, leave_run{});
  else
    client_.way()->leave("it left before it had begun");
}

void member_life::cut(const std::string& words) {
  client_.close(words);
  self_->end();
  const std::lock_guard lock(self_->mutex);
  self_->worker = self_->host = nullptr;
  self_->peers = {};
}

} // namespace mailgrad::remote
