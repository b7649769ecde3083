#include <mailgrad/net/memory/peer_memory.hpp>

#include <mailgrad/net/ending.hpp>

#include <system_error>

namespace mailgrad::net {

borrowed peer_memory::borrow(const loan& l) try {
  if (!far_) {
    if (!heap_ && look_) look_();
    if (!heap_) throw protocol_error("lent: expected a descriptor of the memory before, found none");
    far_.emplace(std::move(heap_), pages_);
  }
  return far_->view(l);
} catch (const std::system_error& e) {
  throw protocol_error(e.what());
}

} // namespace mailgrad::net
