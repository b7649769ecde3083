#pragma once

#include <mailgrad/net/tls/openssl.hpp>

#include <filesystem>

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
/// Errors  std::runtime_error in one line.
certified_key make_certificate(const std::string& common_name, purpose p, const certified_key* by = nullptr);

/// Both in PEM; the key without a pass phrase.
std::string pem_of(const X509& certificate);

/// The keys of one run or of one group of machines, as `mailgrad keys new` makes them:
///
///     ca.pem, ca.key                   the private authority, whose key signs all certificates
///     server.pem, server.key           of the process that serves
///     worker.pem, worker.key           of every process that joins
///     shard.pem, shard.key             of a parameter host, which joins the server and serves workers
///     token                            32 random bytes, instead of all of them
class key_folder {
public:
  explicit key_folder(std::filesystem::path where) : where_(std::move(where)) {}

  /// Makes the folder and all of the files. Keys and token are readable by their owner alone, and the
  /// certificates are good for ten years from yesterday on.
  /// Errors  std::invalid_argument in one line if it holds keys already; nothing has changed then.
  ///         std::system_error if a file cannot be written.
  void make() const;

  certificate_files of_server() const { return files_of("server"); }
  certificate_files of_worker() const { return files_of("worker"); }
  certificate_files of_shard() const { return files_of("shard"); }
  std::string token() const { return path("token"); }

private:
  certificate_files files_of(const std::string& who) const {
    return {path("ca.pem"), path(who + ".pem"), path(who + ".key")};
  }
  std::string path(const std::string& name) const { return (where_ / name).string(); }

  std::filesystem::path where_;
};

} // namespace mailgrad::net
