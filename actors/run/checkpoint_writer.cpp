#include <mailgrad/actors/run/checkpoint_writer.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/file_error.hpp>

#include <chrono>
#include <exception>
#include <filesystem>

namespace mailgrad {
using messaging::on;

caf::behavior checkpoint_writer::make_behavior() {
  return {
      on(self_, [this](const write_checkpoint& x) { return write(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

checkpoint_written checkpoint_writer::write(const write_checkpoint& x) {
  const auto begun = std::chrono::steady_clock::now();
  const std::filesystem::path file = std::filesystem::path(options_.folder) / checkpoint_name(x.steps);
  checkpoint_written written{x.number, x.steps, file.string(), {}, 0, 0, false};
  try {
    write(x, written);
    remove_older_checkpoints(options_.folder, x.steps, options_.keep);
  } catch (const std::exception& e) {
    written.failure = e.what();
  }
  written.took = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count();
  return written;
}

/// On a full disk it tries twice, unless that has been in vain the last time.
void checkpoint_writer::write(const write_checkpoint& x, checkpoint_written& written) {
  try {
    written.bytes = options_.write(written.file, x.parts);
    room_helps_ = true;
    return;
  } catch (const file_error& e) {
    if (!is_full_disk(e.code()) || !room_helps_) throw;
    const room_made room = make_room(options_.folder, x.steps);
    if (room == room_made::none) throw;
    written.made_room = room == room_made::of_oldest;
  }
  room_helps_ = false;
  written.bytes = options_.write(written.file, x.parts);
  room_helps_ = true;
}

} // namespace mailgrad
