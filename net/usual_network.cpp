#include <mailgrad/net/usual_network.hpp>

#include <mailgrad/net/memory/memory_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

namespace mailgrad::net {

std::shared_ptr<network> usual_network(std::string_view address) {
  if (is_memory_address(address)) return std::make_shared<memory_network>();
  return std::make_shared<tcp_network>();
}

std::shared_ptr<network> fitting_network(const std::shared_ptr<network>& own, std::string_view server,
                                         std::string_view address) {
  return own && is_memory_address(server) == is_memory_address(address) ? own : usual_network(address);
}

} // namespace mailgrad::net
