#pragma once

#include <mailgrad/net/tls/openssl.hpp>

#include <optional>
#include <string>

namespace mailgrad::net {

/// A certificate with its key, both new.
struct certified_key {
  openssl::certificate certificate;
  openssl::key key;
};

/// What the holder of a certificate may do with it.
enum class purpose { signs, serves, joins, serves_and_joins };

/// Makes a key on the curve P-256, and a certificate for it that `by` signs; that of an authority signs
/// itself.
///
/// Errors  std::runtime_error in one line.
certified_key make_certificate(const std::string& common_name, purpose p, const certified_key* by = nullptr);

/// Both in PEM; the key without a pass phrase.
std::string pem_of(const X509& certificate);
std::string pem_of(const EVP_PKEY& key);

} // namespace mailgrad::net
