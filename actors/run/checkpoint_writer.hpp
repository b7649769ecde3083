#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <cstddef>
#include <string>

namespace mailgrad {

struct checkpoint_writer_options {
  std::string folder;
  std::size_t keep = 3; ///< checkpoints that stay when another is written
};

/// Writes checkpoints into a folder, each as a file that appears when all of it is on the disk, and then
/// removes older ones. It blocks on the disk, so it needs a thread of its own.
///
/// Guarantees  every write_checkpoint is answered. A failure leaves the older checkpoints as they were.
class checkpoint_writer {
public:
  static constexpr const char* name = "mailgrad.checkpoint-writer";

  checkpoint_writer(caf::event_based_actor* self, checkpoint_writer_options options)
      : self_(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  checkpoint_written write(const write_checkpoint& x) const;

  caf::event_based_actor* self_;
  checkpoint_writer_options options_;
};

} // namespace mailgrad
