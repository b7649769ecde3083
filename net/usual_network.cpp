#include <mailgrad/net/usual_network.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/memory/shared_heap.hpp>
#include <mailgrad/net/mpi/mpi_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

namespace mailgrad::net {

std::shared_ptr<network> usual_network(std::string_view address) {
  if (is_memory_address(address)) return std::make_shared<memory_network>();
  if (is_mpi_address(address)) return std::make_shared<mpi_network>(mpi_of_this_machine());
  return std::make_shared<tcp_network>();
}

std::shared_ptr<network> fitting_network(const std::shared_ptr<network>& own, std::string_view server,
                                         std::string_view address) {
  const bool is_same_kind = is_memory_address(server) == is_memory_address(address) &&
                            is_mpi_address(server) == is_mpi_address(address);
  return own && is_same_kind ? own : usual_network(address);
}

std::shared_ptr<shared_heap> heap_for(std::string_view address,
                                      std::optional<std::chrono::milliseconds> kept) try {
  heap_options options;
  options.kept = kept;
  return is_memory_address(address) ? std::make_shared<shared_heap>(options) : nullptr;
} catch (const std::system_error&) {
  return nullptr;
}

block_source blocks_of(std::shared_ptr<shared_heap> heap) {
  if (!heap) return {};
  return [heap = std::move(heap)](std::size_t size) { return heap->allocate(size); };
}

} // namespace mailgrad::net
