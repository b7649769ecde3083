#pragma once

#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// The bytes of an encoded gradient. They are written once, so who sends them may hold them as long as it
/// takes.
using wire_message = std::shared_ptr<const std::vector<std::byte>>;

/// The messages that a worker has sent to a shard and whose fate it does not know yet, by the step of their
/// gradient.
///
/// Errors  std::invalid_argument for a step that is in flight already, or that is not.
/// Threads one owner calls; messages may be released on any thread.
class messages_in_flight {
public:
  /// Memory for a message that nobody else holds. A steady step takes none from the heap.
  std::shared_ptr<std::vector<std::byte>> memory(std::size_t bytes);

  void require_new(step_number step) const;
  void sent(step_number step, wire_message message);
  /// The shard has told what became of it.
  wire_message settled(step_number step);

  std::size_t size() const noexcept { return all_.size(); }

private:
  object_pool<std::vector<std::byte>> memory_{[] { return std::make_shared<std::vector<std::byte>>(); }};
  std::vector<std::pair<step_number, wire_message>> all_; ///< a few
};

} // namespace mailgrad
