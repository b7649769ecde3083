#pragma once

#include <memory>
#include <string>

namespace mailgrad::net {

/// The files of a process that proves itself by a certificate. PEM, and the key without a pass phrase.
struct certificate_files {
  std::string authority;   ///< the certificate of the private CA, of which every peer must have one
  std::string certificate; ///< of this process
  std::string key;         ///< of the certificate; readable by its owner alone
};

/// By what a process proves itself to its peers, and what it demands of them: either a certificate of one
/// private authority on each side, or a token that all processes share. Both encrypt by TLS 1.3.
///
/// `mailgrad keys new DIR` makes the files of both.
/// Threads any.
class tls_keys {
public:
  /// Errors  std::system_error if a file cannot be read. std::invalid_argument in one line if it holds
  ///         something else, if key and certificate are not a pair, or if others than its owner may read the
  ///         key.
  static std::shared_ptr<const tls_keys> of_certificates(const certificate_files& files);
  /// The token is a file of 32 random bytes. It never leaves the process; peers tell each other a digest.
  /// Errors  as of_certificates().
  static std::shared_ptr<const tls_keys> of_token(const std::string& file);

  ~tls_keys();
  tls_keys(const tls_keys&) = delete;
  tls_keys& operator=(const tls_keys&) = delete;

  /// "a certificate of 'Mailgrad CA 12ab34cd'" or "token 12ab34cd56ef7890"
  const std::string& words() const noexcept;

  /// Known to the sources that include OpenSSL.
  struct implementation;
  const implementation& own() const noexcept { return *self_; }

private:
  explicit tls_keys(std::unique_ptr<implementation> self);

  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::net
