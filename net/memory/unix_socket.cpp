#include <mailgrad/net/memory/unix_socket.hpp>

#include <mailgrad/net/memory/memory_address.hpp>

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace mailgrad::net {

namespace {

constexpr std::string_view family_of_names = "mailgrad/";
static_assert(1 + family_of_names.size() + most_memory_name <= sizeof(sockaddr_un::sun_path));

struct abstract_address {
  explicit abstract_address(const std::string& name) {
    at.sun_family = AF_UNIX;
    char* const behind_zero = at.sun_path + 1;
    std::ranges::copy(name, std::ranges::copy(family_of_names, behind_zero).out);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + family_of_names.size() + name.size());
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&at); }

  sockaddr_un at{};
  socklen_t size = 0;
};

descriptor new_socket() { return descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

} // namespace

descriptor listening_at(const std::string& name) {
  descriptor made = new_socket();
  const abstract_address where(name);
  if (!made || bind(made.number(), where.get(), where.size) != 0 || listen(made.number(), SOMAXCONN) != 0)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("cannot listen at {}", memory_address(name)));
  return made;
}

dialled connected_to(const std::string& name) {
  descriptor made = new_socket();
  const abstract_address where(name);
  if (!made || connect(made.number(), where.get(), where.size) != 0) return {{}, errno};
  return {std::move(made), 0};
}

descriptor accepted_at(int listener) noexcept {
  return descriptor(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

} // namespace mailgrad::net
