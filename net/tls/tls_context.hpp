#pragma once

#include <mailgrad/net/frame_fields.hpp>
#include <mailgrad/net/tls/openssl.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <string>

namespace mailgrad::net {

/// What OpenSSL makes of the keys, for each side of a connection. Not installed.
class tls_keys::implementation {
public:
  explicit implementation(const certificate_files& files);
  explicit implementation(const std::string& token_file);
  ~implementation();
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  SSL_CTX* server() const noexcept { return server_.get(); }
  SSL_CTX* client() const noexcept { return client_.get(); }
  bool is_token() const noexcept { return !token_.empty(); }
  byte_view token() const noexcept { return token_; }
  /// The digest by which peers tell tokens apart.
  const std::string& token_name() const noexcept { return token_name_; }
  const std::string& words() const noexcept { return words_; }

private:
  void take_certificates(SSL_CTX* to, X509* authority, X509* own, EVP_PKEY* key);

  bytes token_;
  std::string token_name_;
  std::string words_;
  openssl::context server_, client_;
};

/// What a connection learns of its peer while both prove themselves, for the words of a refusal. Found by
/// SSL_get_app_data().
struct tls_peer {
  std::string token_name;  ///< that a client offered
  std::string certificate; ///< "a certificate of 'CA' (why it is not accepted)"
};

} // namespace mailgrad::net
