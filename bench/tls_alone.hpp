#pragma once

#include "measuring.hpp"

#include <mailgrad/net/tls/openssl.hpp>

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

// What OpenSSL itself takes of a core, without sockets: the limit of a session by TLS.

namespace mailgrad::bench {

/// Both ends of a TLS 1.3 connection, over memory.
class tls_alone {
public:
  explicit tls_alone(std::shared_ptr<const net::tls_keys> keys)
      : keys_(std::move(keys)), writer_(SSL_new(keys_->own().client.get())),
        reader_(SSL_new(keys_->own().server.get())) {
    SSL_set_app_data(writer_.get(), &peers_[0]);
    SSL_set_app_data(reader_.get(), &peers_[1]);
    BIO *there = BIO_new(BIO_s_mem()), *back = BIO_new(BIO_s_mem());
    for (BIO* b : {there, back}) BIO_up_ref(b);
    SSL_set_bio(writer_.get(), back, there);
    SSL_set_bio(reader_.get(), there, back);
    SSL_set_connect_state(writer_.get());
    SSL_set_accept_state(reader_.get());
    for (int i = 0; i < 8; ++i) {
      SSL_do_handshake(writer_.get());
      SSL_do_handshake(reader_.get());
    }
    if (SSL_is_init_finished(writer_.get()) != 1 || SSL_is_init_finished(reader_.get()) != 1)
      throw std::runtime_error("TLS in memory: the two ends do not agree");
  }

  /// GB/s of encrypting, and of decrypting, by one core, 256 KiB at a time as a session does.
  struct rates {
    double encrypt, decrypt;
  };
  rates measured() {
    constexpr std::size_t at_once = 256 << 10, times = 1'000;
    const std::vector<std::byte> from(at_once, std::byte{1});
    std::vector<std::byte> to(at_once);
    double encrypting = 0, decrypting = 0;
    for (std::size_t i = 0; i < times; ++i) {
      std::size_t n = 0;
      const stopwatch first;
      for (std::size_t done = 0; done < at_once; done += n)
        if (SSL_write_ex(writer_.get(), from.data() + done, at_once - done, &n) != 1)
          throw std::runtime_error("TLS in memory: nothing is taken");
      encrypting += first.seconds();
      const stopwatch second;
      for (std::size_t done = 0; done < at_once; done += n)
        if (SSL_read_ex(reader_.get(), to.data() + done, at_once - done, &n) != 1)
          throw std::runtime_error("TLS in memory: what was written does not come");
      decrypting += second.seconds();
    }
    keep(to[0]);
    const double gigabytes = static_cast<double>(at_once * times) / 1e9;
    return {gigabytes / encrypting, gigabytes / decrypting};
  }

private:
  struct free_connection {
    void operator()(SSL* s) const noexcept { SSL_free(s); }
  };

  std::shared_ptr<const net::tls_keys> keys_;
  net::tls_peer peers_[2];
  std::unique_ptr<SSL, free_connection> writer_, reader_;
};

} // namespace mailgrad::bench
