#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// A recording that cannot be used; one line that names it, with what was expected and what was found.
class recording_error : public std::invalid_argument {
public:
  /// A recording may hold any text: what would end the line becomes a space.
  explicit recording_error(const std::string& what);
};

/// What a recording begins with: all that a run is determined by, but for the order that follows.
struct recording_header {
  std::uint32_t workers = 1;
  std::uint32_t shards = 1;
  std::vector<std::pair<std::string, std::string>> facts; ///< by name; a replay must have the same
  std::vector<std::string> words; ///< of the command line, for whoever starts a replay; may be empty
};

/// A switch of policy, and where it found the workers.
struct recorded_switch {
  std::string policy; ///< the next
  std::string why;
  std::vector<std::uint64_t> batches; ///< by rank: trained before it
  std::vector<std::uint8_t> present;  ///< by rank, 0: had ended before

  friend bool operator==(const recorded_switch&, const recorded_switch&) = default;
};

/// What a recording ends with.
struct recording_end {
  std::string ended; ///< as in the report: "completed", "stopped", ...
  std::string why;
  std::vector<std::uint32_t> lost;       ///< ranks of workers that died
  std::vector<recorded_switch> switches; ///< each was written when it came
  std::string parameters_sha256;         ///< empty if there are none
};

/// A recorded run.
struct recording {
  std::string name; ///< of the file, for messages
  recording_header header;
  std::vector<std::vector<order_entry>> turns; ///< by shard, in its order
  std::vector<std::vector<std::uint64_t>>
      batches; ///< by rank: the numbers of those it was dealt, in its order
  recording_end end;
  bool killed = false; ///< the run was killed: this is what it had written, and the end has switches alone
};

/// Writes a recording as it happens: memory for a few turns is all it takes.
///
/// Units   bytes: "mgradrec", u32 format, u32 n, n of JSON (the header); then parts, each u32 source, u32 n
///         and n entries; a switch and the end, which is the last part, are n bytes of JSON. The header and
///         each part are followed by the CRC-32 of all before as u32, the end also by "recorded". All little
///         endian. A turn takes 16 bytes: u8 kind, u16 worker, u40 step, i64 arrival; a deal takes 8: u16
///         worker, u48 number. So with one shard an update takes 24 bytes, with more of them less for each.
/// Errors  end() alone: std::runtime_error if any of it could not be written.
/// Threads one caller at a time.
class recording_writer {
public:
  /// `keep` is called when all is written, and returns 0 or the errno for which the recording is not there.
  recording_writer(std::unique_ptr<std::ostream> out, std::string name, const recording_header& header,
                   std::function<int()> keep = {});

  void add_turns(std::uint32_t shard, std::span<const order_entry> turns);
  void add_deals(std::span<const recorded_deal> deals);
  void add_switch(const recorded_switch& s);
  /// Its switches are written already.
  void end(const recording_end& e);

private:
  /// A part is in the file when this returns, so that a process that is killed leaves it behind.
  void write(std::string bytes, std::string_view last = {});

  std::unique_ptr<std::ostream> out_;
  std::string name_;
  std::function<int()> keep_;
  unsigned long checksum_ = 0;
  int failure_ = 0; ///< errno of the first
};

/// Opens a file to record into: PATH.partial, which takes the place of PATH at the end of the recording, and
/// is gone without one. A PATH.partial that a killed run left becomes PATH.killed, if there is none yet.
///
/// Errors  std::system_error; recording_error if it has more workers than a recording can number, or if
///         another run is recording into this file.
std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header);

/// Reads a recording from memory. `name` is for messages.
///
/// Errors  recording_error: foreign, of another format, cut short, damaged, or inconsistent.
recording parse_recording(std::string_view bytes, const std::string& name);

/// Reads what a run had written that was killed: all parts up to the first that is not whole.
///
/// Errors  recording_error: foreign, of another format, inconsistent, or without a whole header.
recording parse_killed_recording(std::string_view bytes, const std::string& name);

/// Reads no further than its first words if those are foreign. PATH.partial is what a run left that was
/// killed, and so is PATH.killed.
///
/// Errors  std::system_error if the file cannot be read; recording_error if a run is writing it; as
///         parse_recording() and parse_killed_recording().
recording read_recording(const std::string& path);

/// What can be said without the options of the run: rehearsal.hpp tells whether a replay comes to its end.
///
/// Errors  recording_error, with the place: the run lost a worker, a shard or its feeder, so its order alone
///         does not repeat it; or a turn is missing, is there twice or out of order, or a batch was dealt
///         twice; or it switches to what is no policy with an order.
void require_repeatable(const recording& r);

} // namespace mailgrad
