#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/net/tls/certificate_maker.hpp>

#include <fmt/format.h>

#include <openssl/rand.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr std::array<const char*, 9> names{"ca.pem",     "ca.key",     "server.pem",
                                           "server.key", "worker.pem", "worker.key",
                                           "shard.pem",  "shard.key",  "token"};

[[noreturn]] void fail(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot write {}", path));
}

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
