#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/net/descriptor.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <stdexcept>

namespace mailgrad::net {

namespace {

using namespace openssl;

constexpr long seconds_a_day = 24L * 60 * 60;
constexpr int days_it_is_good = 3653;

void check(int is_right, const char* what) {
  if (is_right != 1) throw std::runtime_error(fmt::format("cannot make {}: {}", what, last_words()));
}

void set_number(X509* c) {
  std::array<unsigned char, 16> number;
  check(RAND_bytes(number.data(), static_cast<int>(number.size())), "a serial number");
  number[0] &= 0x7f; // X.509 has positive ones alone
  const std::unique_ptr<BIGNUM, freed_by<BN_free>> big(
      BN_bin2bn(number.data(), static_cast<int>(number.size()), nullptr));
  check(big && BN_to_ASN1_INTEGER(big.get(), X509_get_serialNumber(c)) != nullptr, "a serial number");
}

void set_name(X509* c, const std::string& common_name) {
  check(X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0),
        "the name of a certificate");
}

void add(X509* c, X509* issuer, int kind, const char* value) {
  X509V3_CTX around;
  X509V3_set_ctx(&around, issuer, c, nullptr, nullptr, 0);
  const openssl::extension made_one(X509V3_EXT_conf_nid(nullptr, &around, kind, value));
  check(made_one && X509_add_ext(c, made_one.get(), -1), "an extension of a certificate");
}

const char* uses_of(purpose p) {
  if (p == purpose::serves) return "serverAuth";
  return p == purpose::joins ? "clientAuth" : "serverAuth,clientAuth";
}

void set_purpose(X509* c, X509* issuer, purpose p) {
  const bool signs = p == purpose::signs;
  add(c, issuer, NID_basic_constraints, signs ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
  add(c, issuer, NID_key_usage, signs ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
  add(c, issuer, NID_subject_key_identifier, "hash");
  if (signs) return;
  add(c, issuer, NID_authority_key_identifier, "keyid");
  add(c, issuer, NID_ext_key_usage, uses_of(p));
}

template <class Write>
std::string text_of(Write write) {
  const auto to = made<openssl::bio>(BIO_new(BIO_s_mem()));
  check(write(to.get()), "a PEM file");
  char* first = nullptr;
  const long size = BIO_get_mem_data(to.get(), &first);
  return {first, static_cast<std::size_t>(size)};
}

std::string pem_of(const EVP_PKEY& key) {
  return text_of([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, const_cast<EVP_PKEY*>(&key), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

constexpr std::array<const char*, 9> names{"ca.pem",     "ca.key",     "server.pem",
                                           "server.key", "worker.pem", "worker.key",
                                           "shard.pem",  "shard.key",  "token"};

[[noreturn]] void fail(const std::string& path) { fail_in_system(fmt::format("cannot write {}", path)); }

void write_file(const std::string& path, std::string_view text, mode_t permission) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permission);
  if (file < 0) fail(path);
  bool is_whole = fchmod(file, permission) == 0; // whatever the process takes off new files
  for (std::size_t done = 0; is_whole && done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    is_whole = n > 0;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  is_whole = is_whole && fsync(file) == 0;
  const int why = errno;
  close(file);
  errno = why;
  if (!is_whole) fail(path);
}

std::string random_bytes(std::size_t count) {
  std::string drawn(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(drawn.data()), static_cast<int>(count)) != 1)
    throw std::runtime_error(fmt::format("cannot draw random bytes: {}", openssl::last_words()));
  return drawn;
}

} // namespace

certified_key make_certificate(const std::string& common_name, purpose p, const certified_key* by) {
  certified_key result{made<openssl::certificate>(X509_new()), openssl::key(EVP_EC_gen("P-256"))};
  check(result.key != nullptr, "a key");
  X509* c = result.certificate.get();
  X509* issuer = by != nullptr ? by->certificate.get() : c;
  check(X509_set_version(c, X509_VERSION_3), "a certificate");
  set_number(c);
  set_name(c, common_name);
  // A clock that is a little behind on another machine takes it as well.
  check(X509_gmtime_adj(X509_getm_notBefore(c), -seconds_a_day) != nullptr, "a date");
  check(X509_time_adj_ex(X509_getm_notAfter(c), days_it_is_good, 0, nullptr) != nullptr, "a date");
  check(X509_set_issuer_name(c, X509_get_subject_name(issuer)), "a certificate");
  check(X509_set_pubkey(c, result.key.get()), "a certificate");
  set_purpose(c, issuer, p);
  EVP_PKEY* signs = by != nullptr ? by->key.get() : result.key.get();
  check(X509_sign(c, signs, EVP_sha256()) > 0 ? 1 : 0, "a signature");
  return result;
}

std::string pem_of(const X509& certificate) {
  return text_of([&](BIO* to) { return PEM_write_bio_X509(to, const_cast<X509*>(&certificate)); });
}

void key_folder::make() const {
  for (const char* name : names)
    if (std::filesystem::exists(where_ / name))
      throw std::invalid_argument(
          fmt::format("{}: expected a folder without keys, found {}: name another folder, or "
                      "remove this one, and whoever has its keys is shut out",
                      where_.string(), name));
  std::error_code failed;
  const bool is_new = std::filesystem::create_directories(where_, failed);
  if (failed) {
    errno = failed.value();
    fail(where_.string());
  }
  if (is_new) std::filesystem::permissions(where_, std::filesystem::perms::owner_all);
  // The name tells one authority from another where a peer is refused.
  std::string number;
  for (const char c : random_bytes(4)) number += fmt::format("{:02x}", static_cast<unsigned char>(c));
  const certified_key authority = make_certificate("Mailgrad CA " + number, purpose::signs);
  const auto write_pair = [&](const std::string& who, const certified_key& pair) {
    constexpr mode_t of_all = 0644, of_owner = 0600;
    write_file(path(who + ".key"), pem_of(*pair.key), of_owner);
    write_file(path(who + ".pem"), pem_of(*pair.certificate), of_all);
  };
  write_pair("ca", authority);
  write_pair("server", make_certificate("Mailgrad server", purpose::serves, &authority));
  write_pair("worker", make_certificate("Mailgrad worker", purpose::joins, &authority));
  write_pair("shard", make_certificate("Mailgrad shard", purpose::serves_and_joins, &authority));
  write_file(token(), random_bytes(32), 0600);
}

} // namespace mailgrad::net
