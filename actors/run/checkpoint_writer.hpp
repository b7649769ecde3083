#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_file.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace mailgrad {

struct checkpoint_writer_options {
  std::string folder;
  std::size_t keep = 3; ///< checkpoints that stay when another is written
  /// What writes one, as write_checkpoint_file() does.
  std::function<std::uint64_t(const std::filesystem::path&, const checkpoint_parts&)> write =
      write_checkpoint_file;
};

/// Writes checkpoints into a folder, each as a file that appears when all of it is on the disk, and then
/// removes older ones. It blocks on the disk, so it needs a thread of its own.
///
/// Guarantees  every write_checkpoint is answered. A failure leaves the older checkpoints as they were, but
///             on a full disk the oldest goes for a newer one, as long as a whole one stays (make_room()).
class checkpoint_writer {
public:
  static constexpr const char* name = "mailgrad.checkpoint-writer";

  checkpoint_writer(caf::event_based_actor* self, checkpoint_writer_options options)
      : self_(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  checkpoint_written write(const write_checkpoint& x);
  void write(const write_checkpoint& x, checkpoint_written& written);

  caf::event_based_actor* self_;
  checkpoint_writer_options options_;
  bool room_helps_ = true; ///< the last time that room was made on a full disk, there was enough
};

} // namespace mailgrad
