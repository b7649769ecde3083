#include <mailgrad/net/tcp/tcp_host.hpp>

#include <mailgrad/net/refusal_advice.hpp>
#include <mailgrad/net/stream/plain_pipe.hpp>
#include <mailgrad/net/tcp/socket_options.hpp>
#include <mailgrad/net/tls/tls_pipe.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad::net {

namespace {

constexpr std::chrono::milliseconds pause_before_another{200};

} // namespace

tcp_host::tcp_host(stream_loop& loop, server_end& server, keys_ptr keys)
    : stream_host(loop, server), keys_(std::move(keys)), again_(loop.io()) {}

tcp_host::tcp_host(stream_loop& loop, client_end& client, keys_ptr keys)
    : stream_host(loop, client), keys_(std::move(keys)), again_(loop.io()) {}

listen_address tcp_host::listen(const listen_address& where) {
  const auto made = std::make_shared<tcp_listener>(loop().io(), where, [host = self()](tcp::socket socket) {
    if (!host->is_forgotten()) host->stand(host->loop().next_id(), std::move(socket));
  });
  listeners_.push_back(made);
  made->begin();
  return made->address();
}

void tcp_host::connect(const listen_address& where, instant patience,
                       std::function<void(std::string)> on_wait) {
  where_ = where;
  patience_ = patience;
  until_ = loop().now() + patience;
  on_wait_ = std::move(on_wait);
  dial(patience);
}

/// Words of a server, such as a refusal, are no closing without a word.
bool tcp_host::tries_again(const moved& last) {
  const bool is_wordless =
      last.what == moved::outcome::ended || (last.what == moved::outcome::failed && !last.refused && !keys_);
  if (!is_wordless || loop().now() >= until_) return false;
  if (const auto tell = std::exchange(on_wait_, nullptr))
    tell(fmt::format("{} takes connections and closes them, as a tunnel does whose far end is not there yet; "
                     "it tries again for {} s",
                     server_name(), in_seconds(patience_)));
  again_.expires_after(pause_before_another);
  again_.async_wait([host = self()](error_code cancelled) {
    if (cancelled || host->is_forgotten()) return;
    host->dial(std::max(instant{0}, host->until_ - host->loop().now()));
  });
  return true;
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
  again_.cancel();
  if (dialer_) dialer_->cancel();
  dialer_.reset();
}

std::string tcp_host::server_name() const { return to_string(where_); }

std::string tcp_host::early_end_words(const moved& last) const {
  if (last.refused)
    return fmt::format("{}: {}{}", server_name(), last.refused->words(), advice_on(*last.refused));
  if (last.what == moved::outcome::failed && keys_) return fmt::format("{}: {}", server_name(), last.words);
  const bool tried = patience_.count() > 0 && loop().now() >= until_;
  return stream_host::early_end_words(last) +
         (tried ? fmt::format(", tried for {} s", in_seconds(patience_)) : "");
}

std::unique_ptr<byte_pipe> tcp_host::make_pipe(int socket) const {
  if (!keys_) return std::make_unique<plain_pipe>(socket);
  return std::make_unique<tls_pipe>(socket, keys_, server() ? tls_pipe::side::server : tls_pipe::side::client,
                                    tls_pipe::usual_bytes_a_key, buffers_);
}

} // namespace mailgrad::net
