#include <mailgrad/net/tcp/tcp_host.hpp>

#include <mailgrad/net/stream/plain_pipe.hpp>
#include <mailgrad/net/tcp/socket_options.hpp>
#include <mailgrad/net/tls/tls_pipe.hpp>

#include <fmt/format.h>

namespace mailgrad::net {

tcp_host::tcp_host(stream_loop& loop, server_end& server, keys_ptr keys)
    : stream_host(loop, server), keys_(std::move(keys)) {}

tcp_host::tcp_host(stream_loop& loop, client_end& client, keys_ptr keys)
    : stream_host(loop, client), keys_(std::move(keys)) {}

listen_address tcp_host::listen(const listen_address& where) {
  const auto made = std::make_shared<tcp_listener>(loop().io(), where, [host = self()](tcp::socket socket) {
    if (!host->is_forgotten()) host->stand(host->loop().next_id(), std::move(socket));
  });
  listeners_.push_back(made);
  made->begin();
  return made->address();
}

void tcp_host::connect(const listen_address& where, instant patience) {
  where_ = where;
  dial(patience);
}

void tcp_host::begin_dialling(connection_id id, plane p, instant patience) {
  // A name may mean several machines, and both connections lead to one.
  const listen_address& to = p == plane::bulk ? found_ : where_;
  dialer_ = std::make_shared<tcp_dialer>(
      loop().io(), tcp_dialer::plan{to.host, to.port, patience, times().hello(), keys_ == nullptr},
      [host = self(), id](tcp_dialer::outcome found) {
        host->dialer_.reset();
        if (found.nobody_listens) return host->find_nobody(found.words);
        if (!found.words.empty()) return host->fail(id, found.words);
        error_code gone;
        const tcp::endpoint peer = found.socket.remote_endpoint(gone);
        host->found_ = {peer.address().to_string(), peer.port()};
        host->stand(id, std::move(found.socket));
      });
  dialer_->begin();
}

void tcp_host::stand(connection_id id, tcp::socket socket) {
  set_latency(socket.native_handle());
  // A server may not take a body for a while, and the control connection then says that it lives.
  if (!client() || !client()->is_bulk(id)) set_patience(socket.native_handle(), times());
  // A client knows the server's times when it makes its second connection.
  for (const auto& [other, x] : connections())
    if (client() && !client()->is_bulk(other)) set_patience(x->native(), times());
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  const std::string from =
      gone ? "an address that is gone" : to_string(listen_address{peer.address().to_string(), peer.port()});
  auto pipe = make_pipe(socket.native_handle());
  open(id, from, std::move(socket), std::move(pipe));
}

void tcp_host::stop_making() {
  for (const auto& l : listeners_) l->close();
  listeners_.clear();
  if (dialer_) dialer_->cancel();
  dialer_.reset();
}

std::string tcp_host::server_name() const { return to_string(where_); }

std::string tcp_host::early_end_words(const moved& last) const {
  if (last.refused)
    return fmt::format(
        "{}: {}: {}", server_name(), last.refused->words(),
        last.refused->found.find("certificate purpose") != std::string::npos
            ? "give each side the files of its part, which are those of a server, a worker or a "
              "parameter host"
            : "give both sides keys of one `mailgrad keys new`, or none on one machine");
  if (last.what == moved::outcome::failed && keys_) return fmt::format("{}: {}", server_name(), last.words);
  return stream_host::early_end_words(last);
}

std::unique_ptr<byte_pipe> tcp_host::make_pipe(int socket) const {
  if (!keys_) return std::make_unique<plain_pipe>(socket);
  return std::make_unique<tls_pipe>(socket, keys_, server() ? tls_pipe::side::server : tls_pipe::side::client,
                                    tls_pipe::usual_bytes_a_key, buffers_);
}

} // namespace mailgrad::net
