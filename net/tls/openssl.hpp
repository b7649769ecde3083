#pragma once

#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/tls/tls_keys.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <new>

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
struct tls_keys::implementation {
  explicit implementation(const certificate_files& files);
  explicit implementation(const std::string& token_file);
  ~implementation();
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  void take_certificates(SSL_CTX* to, X509* authority, X509* own, EVP_PKEY* key);

  bytes token;            ///< empty: there are certificates
  std::string token_name; ///< the digest by which peers tell tokens apart
  std::string words;
  openssl::context server, client;
};

/// What a connection learns of its peer while both prove themselves, for the words of a refusal. Found by
/// SSL_get_app_data().
struct tls_peer {
  std::string token_name;  ///< that a client offered
  std::string certificate; ///< "a certificate of 'CA' (why it is not accepted)"
};

} // namespace mailgrad::net
