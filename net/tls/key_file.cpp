#include <mailgrad/net/tls/key_file.hpp>

#include <mailgrad/net/descriptor.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace mailgrad::net {

bytes read_key_file(const std::string& path, secrecy s, std::size_t most) {
  const descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!file || fstat(file.number(), &about) != 0)
    throw std::system_error(errno, std::generic_category(), fmt::format("cannot read the key file {}", path));
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
    if (n < 0)
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("cannot read the key file {}", path));
  }
  if (count > most)
    throw std::invalid_argument(
        fmt::format("{}: expected at most {} bytes, found more: it is no key file", path, most));
  found.resize(count);
  return found;
}

} // namespace mailgrad::net
