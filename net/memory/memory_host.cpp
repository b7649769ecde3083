#include <mailgrad/net/memory/memory_host.hpp>

#include <mailgrad/net/memory/memory_address.hpp>
#include <mailgrad/net/memory/memory_pipe.hpp>
#include <mailgrad/net/memory/region_offer.hpp>
#include <mailgrad/net/stream/plain_pipe.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <system_error>

namespace mailgrad::net {

std::string memory_host::listen(const std::string& name) {
  const auto made =
      std::make_shared<memory_listener>(loop().io(), name, [host = self()](stream_socket socket) {
        if (!host->is_forgotten()) host->take_in(std::move(socket));
      });
  listeners_.push_back(made);
  made->begin();
  return made->name();
}

void memory_host::connect(const std::string& name, instant patience) {
  name_ = name;
  dial(patience);
}

void memory_host::begin_dialling(connection_id id, plane p, instant patience) {
  dialer_ =
      std::make_shared<memory_dialer>(loop().io(), memory_dialer::plan{name_, patience, times().hello()},
                                      [host = self(), id, p](memory_dialer::outcome found) {
                                        host->dialer_.reset();
                                        if (found.nobody_listens) return host->find_nobody(found.words);
                                        if (!found.words.empty()) return host->fail(id, found.words);
                                        host->begin_talk(id, p, std::move(found));
                                      });
  dialer_->begin();
}

/// Bodies go by the bulk connection, so there alone something is lent.
void memory_host::begin_talk(connection_id id, plane p, memory_dialer::outcome found) {
  const int number = found.socket.native_handle();
  const std::shared_ptr<shared_heap> lends = p == plane::bulk ? client()->heap() : nullptr;
  if (lends) send_heap(number, lends->memory());
  auto pipe =
      std::make_unique<memory_pipe>(number, std::move(found.memory.region), memory_pipe::side::client, lends);
  const auto memory = pipe->memory();
  if (p == plane::bulk && found.memory.heap) memory->take(std::move(found.memory.heap));
  open(id, process_at(number), std::move(found.socket), std::move(pipe), memory);
}

/// A peer without memory is let go without a word, since there is none for words either; it says that the
/// connection was closed.
void memory_host::take_in(stream_socket socket) try {
  const int number = socket.native_handle();
  const auto user = user_of_peer(number);
  if (user != geteuid())
    return turn_away(std::move(socket), user ? fmt::format("user {}", *user) : "no user");
  shared_region region = shared_region::make();
  const std::shared_ptr<shared_heap> lends = server()->heap();
  if (!send_offer(number, region, lends ? lends->memory() : -1)) return;
  auto pipe =
      std::make_unique<memory_pipe>(number, std::move(region), memory_pipe::side::server, lends, pages_);
  const auto memory = pipe->memory();
  open(loop().next_id(), process_at(number), std::move(socket), std::move(pipe), memory);
} catch (const std::system_error&) {
}

/// Gets words by the socket, and no memory.
void memory_host::turn_away(stream_socket socket, std::string found) {
  const int number = socket.native_handle();
  auto pipe = std::make_unique<plain_pipe>(number);
  const auto c = open(loop().next_id(), process_at(number), std::move(socket), std::move(pipe));
  if (!server()) return;
  server()->refuse(c->id(), {refusal_code::user, fmt::format("user {}", geteuid()), std::move(found)});
  flush(c);
}

void memory_host::stop_making() {
  for (const auto& l : listeners_) l->close();
  listeners_.clear();
  if (dialer_) dialer_->cancel();
  dialer_.reset();
}

std::string memory_host::server_name() const { return memory_address(name_); }

} // namespace mailgrad::net
