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

void memory_host::begin_dialling(connection_id id, plane, instant patience) {
  dialer_ = std::make_shared<memory_dialer>(
      loop().io(), memory_dialer::plan{name_, patience, times().hello()},
      [host = self(), id](memory_dialer::outcome found) {
        host->dialer_.reset();
        if (found.nobody_listens) return host->find_nobody(found.words);
        if (!found.words.empty()) return host->fail(id, found.words);
        auto pipe = std::make_unique<memory_pipe>(found.socket.native_handle(), std::move(found.region),
                                                  memory_pipe::side::client);
        host->open(id, std::move(found.socket), std::move(pipe));
      });
  dialer_->begin();
}

/// A peer without memory is let go without a word, since there is none for words either; it says that the
/// connection was closed.
void memory_host::take_in(stream_socket socket) try {
  const int number = socket.native_handle();
  const auto user = user_of_peer(number);
  if (user != geteuid())
    return turn_away(std::move(socket), user ? fmt::format("user {}", *user) : "no user");
  shared_region region = shared_region::make();
  if (!send_offer(number, region)) return;
  auto pipe = std::make_unique<memory_pipe>(number, std::move(region), memory_pipe::side::server);
  open(loop().next_id(), std::move(socket), std::move(pipe));
} catch (const std::system_error&) {
}

/// Gets words by the socket, and no memory.
void memory_host::turn_away(stream_socket socket, std::string found) {
  auto pipe = std::make_unique<plain_pipe>(socket.native_handle());
  const auto c = open(loop().next_id(), std::move(socket), std::move(pipe));
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
