#include <mailgrad/net/tls/tls_keys.hpp>

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/tls/tls_pipe.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <stdexcept>

namespace mailgrad::net {

namespace {

using namespace openssl;

constexpr std::size_t token_bytes = 32;

/// Whether others may know what a file holds.
enum class secrecy { secret, known_to_all };

/// The bytes of a small file.
/// Errors  std::system_error that names it. std::invalid_argument in one line if it is too large, or if
///         others than its owner may read what is secret.
bytes read_key_file(const std::string& path, secrecy s) {
  constexpr std::size_t most = 64 << 10;
  const descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!file || fstat(file.number(), &about) != 0)
    fail_in_system(fmt::format("cannot read the key file {}", path));
  constexpr mode_t of_others = S_IRWXG | S_IRWXO;
  constexpr mode_t all = 07777;
  if (s == secrecy::secret && (about.st_mode & of_others) != 0)
    throw std::invalid_argument(
        fmt::format("{}: expected permission 0600, found {:04o}: others may read it; run: chmod 600 {}", path,
                    about.st_mode & all, path));
  bytes found(most + 1);
  std::size_t count = 0;
  for (ssize_t n = 1; n != 0 && count < found.size(); count += static_cast<std::size_t>(n)) {
    n = read(file.number(), found.data() + count, found.size() - count);
    if (n < 0) fail_in_system(fmt::format("cannot read the key file {}", path));
  }
  if (count > most)
    throw std::invalid_argument(
        fmt::format("{}: expected at most {} bytes, found more: it is no key file", path, most));
  found.resize(count);
  return found;
}

openssl::bio reader_of(byte_view data) {
  return made<bio>(BIO_new_mem_buf(data.data(), static_cast<int>(data.size())));
}

openssl::certificate read_certificate(const std::string& file) {
  const bytes data = read_key_file(file, secrecy::known_to_all);
  openssl::certificate found(PEM_read_bio_X509(reader_of(data).get(), nullptr, nullptr, nullptr));
  if (!found)
    throw std::invalid_argument(
        fmt::format("{}: expected a certificate in PEM, found {}", file, last_words()));
  return found;
}

openssl::key read_key(const std::string& file) {
  bytes data = read_key_file(file, secrecy::secret);
  const auto no_pass_phrase = [](char*, int, int, void*) { return 0; };
  openssl::key found(PEM_read_bio_PrivateKey(reader_of(data).get(), nullptr, no_pass_phrase, nullptr));
  OPENSSL_cleanse(data.data(), data.size());
  if (!found)
    throw std::invalid_argument(
        fmt::format("{}: expected a private key in PEM without a pass phrase, found {}", file, last_words()));
  return found;
}

openssl::context context_of(const SSL_METHOD* method) {
  auto made_one = made<openssl::context>(SSL_CTX_new(method));
  SSL_CTX* c = made_one.get();
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  if (SSL_CTX_set_ciphersuites(c, "TLS_AES_256_GCM_SHA384") != 1)
    throw std::runtime_error(fmt::format("TLS: expected AES-256-GCM in OpenSSL, found {}", last_words()));
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0); // every connection proves itself anew
  SSL_CTX_set_max_cert_list(c, most_greeting_message);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF); // a goodbye is a frame, so no end can be forged
  return made_one;
}

tls_peer& peer_of(const SSL* connection) { return *static_cast<tls_peer*>(SSL_get_app_data(connection)); }
const tls_keys::implementation& keys_of(const SSL* connection) {
  return *static_cast<const tls_keys::implementation*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(connection)));
}

/// Keeps of whom a certificate is that OpenSSL does not accept.
int note_certificate(int is_right, X509_STORE_CTX* checked) {
  if (is_right == 1) return 1;
  const auto* connection =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(checked, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const X509* leaf = X509_STORE_CTX_get0_cert(checked);
  peer_of(connection).certificate =
      fmt::format("a certificate of '{}' ({})", common_name(X509_get_issuer_name(leaf)),
                  X509_verify_cert_error_string(X509_STORE_CTX_get_error(checked)));
  return 0;
}

/// The token as OpenSSL takes it: as the secret of a session that both had before.
SSL_SESSION* session_of(SSL* connection) {
  constexpr std::array<unsigned char, 2> aes_256_gcm_sha384{0x13, 0x02};
  const byte_view token = keys_of(connection).token;
  auto s = made<openssl::session>(SSL_SESSION_new());
  const bool is_whole =
      SSL_SESSION_set1_master_key(s.get(), reinterpret_cast<const unsigned char*>(token.data()),
                                  token.size()) == 1 &&
      SSL_SESSION_set_cipher(s.get(), SSL_CIPHER_find(connection, aes_256_gcm_sha384.data())) == 1 &&
      SSL_SESSION_set_protocol_version(s.get(), TLS1_3_VERSION) == 1;
  return is_whole ? s.release() : nullptr;
}

int offer_token(SSL* connection, const EVP_MD* digest, const unsigned char** name, std::size_t* size,
                SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha384) return 1; // no token of ours
  const std::string& own = keys_of(connection).token_name;
  *name = reinterpret_cast<const unsigned char*>(own.data());
  *size = own.size();
  *session = session_of(connection);
  return *session != nullptr ? 1 : 0;
}

int find_token(SSL* connection, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  const std::string_view offered(reinterpret_cast<const char*>(name), size);
  peer_of(connection).token_name = printable(offered, 64);
  *session = nullptr;
  if (keys_of(connection).token.empty() || offered != keys_of(connection).token_name) return 1; // not ours
  *session = session_of(connection);
  return *session != nullptr ? 1 : 0;
}

/// What it is comes before who may read it, since advice on permissions is of no use for another file.
bytes read_token(const std::string& file) {
  bytes found = read_key_file(file, secrecy::known_to_all);
  const bool is_pem = as_text(found).starts_with("-----BEGIN ");
  OPENSSL_cleanse(found.data(), found.size());
  if (is_pem)
    throw std::invalid_argument(fmt::format("{}: expected a token, found a certificate or its key: give the "
                                            "folder that it lies in",
                                            file));
  return read_key_file(file, secrecy::secret);
}

std::string digest_of(byte_view token) {
  constexpr std::string_view purpose = "name of a token of Mailgrad";
  bytes text(token.begin(), token.end());
  const byte_view more = as_bytes(purpose);
  text.insert(text.end(), more.begin(), more.end());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error(fmt::format("token: expected SHA-256 in OpenSSL, found {}", last_words()));
  std::string name;
  for (std::size_t i = 0; i < 8; ++i) name += fmt::format("{:02x}", digest[i]);
  return name;
}

} // namespace

tls_keys::implementation::implementation(const certificate_files& files)
    : server(context_of(TLS_server_method())), client(context_of(TLS_client_method())) {
  const auto authority = read_certificate(files.authority);
  const auto own = read_certificate(files.certificate);
  const auto key = read_key(files.key);
  if (X509_check_private_key(own.get(), key.get()) != 1)
    throw std::invalid_argument(
        fmt::format("{}: expected the key of {}, found another one", files.key, files.certificate));
  const std::string name = common_name(X509_get_subject_name(authority.get()));
  if (X509_verify(own.get(), X509_get0_pubkey(authority.get())) != 1)
    throw std::invalid_argument(fmt::format("{}: expected a certificate of '{}' in {}, found one of '{}'",
                                            files.certificate, name, files.authority,
                                            common_name(X509_get_issuer_name(own.get()))));
  ERR_clear_error();
  words = fmt::format("a certificate of '{}'", name);
  for (SSL_CTX* to : {server.get(), client.get()})
    take_certificates(to, authority.get(), own.get(), key.get());
}

void tls_keys::implementation::take_certificates(SSL_CTX* to, X509* authority, X509* own, EVP_PKEY* key) {
  SSL_CTX_set_app_data(to, this);
  const bool is_whole = SSL_CTX_use_certificate(to, own) == 1 && SSL_CTX_use_PrivateKey(to, key) == 1 &&
                        X509_STORE_add_cert(SSL_CTX_get_cert_store(to), authority) == 1 &&
                        SSL_CTX_add1_to_CA_list(to, authority) == 1;
  if (!is_whole) throw std::runtime_error(fmt::format("TLS: cannot use the certificate: {}", last_words()));
  SSL_CTX_set_verify(to, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_certificate);
  SSL_CTX_set_psk_find_session_callback(to, find_token); // of a client that has a token, to name it
}

tls_keys::implementation::implementation(const std::string& token_file)
    : token(read_token(token_file)), server(context_of(TLS_server_method())),
      client(context_of(TLS_client_method())) {
  if (token.size() != token_bytes)
    throw std::invalid_argument(fmt::format("{}: expected a token of {} random bytes, found {}: make one by "
                                            "`mailgrad keys new DIR`",
                                            token_file, token_bytes, token.size()));
  token_name = digest_of(token);
  words = "token " + token_name;
  for (SSL_CTX* to : {server.get(), client.get()}) SSL_CTX_set_app_data(to, this);
  SSL_CTX_set_psk_find_session_callback(server.get(), find_token);
  SSL_CTX_set_psk_use_session_callback(client.get(), offer_token);
  // A server that proves itself by a certificate is none of ours, and no authority is known here.
  SSL_CTX_set_verify(client.get(), SSL_VERIFY_PEER, note_certificate);
}

tls_keys::implementation::~implementation() { OPENSSL_cleanse(token.data(), token.size()); }

tls_keys::tls_keys(std::unique_ptr<implementation> self) : self_(std::move(self)) {}
tls_keys::~tls_keys() = default;

std::shared_ptr<const tls_keys> tls_keys::of_certificates(const certificate_files& files) {
  return std::shared_ptr<const tls_keys>(new tls_keys(std::make_unique<implementation>(files)));
}
std::shared_ptr<const tls_keys> tls_keys::of_token(const std::string& file) {
  return std::shared_ptr<const tls_keys>(new tls_keys(std::make_unique<implementation>(file)));
}
const std::string& tls_keys::words() const noexcept { return self_->words; }

} // namespace mailgrad::net
