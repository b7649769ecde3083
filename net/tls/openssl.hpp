#pragma once

#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <new>
#include <string>

// What of OpenSSL the sources of this folder use, owned. Not installed.

namespace mailgrad::net::openssl {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* x) const noexcept {
    Free(x);
  }
};

using bio = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using bio_method = std::unique_ptr<BIO_METHOD, freed_by<BIO_meth_free>>;
using certificate = std::unique_ptr<X509, freed_by<X509_free>>;
using context = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;
using connection = std::unique_ptr<SSL, freed_by<SSL_free>>;
using extension = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using key = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using name = std::unique_ptr<X509_NAME, freed_by<X509_NAME_free>>;
using session = std::unique_ptr<SSL_SESSION, freed_by<SSL_SESSION_free>>;

/// For what fails only without memory.
template <class Owned>
Owned made(typename Owned::pointer p) {
  if (p == nullptr) throw std::bad_alloc();
  return Owned(p);
}

/// What OpenSSL says of the last failure of this thread, in words; the rest is forgotten.
inline std::string last_words() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason != nullptr ? reason : "unknown failure";
}

/// The common name, which is what users see of a certificate. It may be a peer's, so it is printable.
inline std::string common_name(const X509_NAME* n) {
  char text[65] = ""; // the longest that X.509 allows
  if (n == nullptr ||
      X509_NAME_get_text_by_NID(const_cast<X509_NAME*>(n), NID_commonName, text, sizeof text) < 0)
    return "?";
  return printable(text);
}

} // namespace mailgrad::net::openssl

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
