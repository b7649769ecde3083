#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>

#include <functional>
#include <ostream>
#include <stdexcept>

namespace mailgrad {

/// A recording cannot be used. The message is one line that names it, what was expected and what was found.
class recording_error : public std::invalid_argument {
public:
  /// Control characters in the text, which may come from a recording, become spaces.
  explicit recording_error(const std::string& what);
};

/// The header of a recording: everything that determines a run, except the order that follows.
struct recording_header {
  std::uint32_t workers = 1;
  std::uint32_t shards = 1;
  std::vector<std::pair<std::string, std::string>> facts; ///< by name; a replay must have the same
  std::vector<std::string> words; ///< options of the command line, for a replay; may be empty
  std::uint32_t slots = 0; ///< of workers at once, with those that may join later; 0: as many as workers

  std::uint32_t ranks() const noexcept { return std::max(workers, slots); }
};

/// The batches that one incarnation of a worker was dealt.
struct dealt_incarnation {
  incarnation_number incarnation{};
  std::size_t first = 0; ///< the first of them among the batches of its rank; the next incarnation ends them
  bool cut = false;      ///< it did not train all that it was dealt, which is left out

  friend bool operator==(const dealt_incarnation&, const dealt_incarnation&) = default;
};

/// A switch of policy, and the state of the workers at that time.
struct recorded_switch {
  std::string policy; ///< the policy that begins
  std::string why;
  std::vector<std::uint64_t> batches; ///< by rank: batches trained before the switch
  std::vector<std::uint8_t> present;  ///< by rank; 0 if the worker had ended before

  friend bool operator==(const recorded_switch&, const recorded_switch&) = default;
};

/// The end of a recording.
struct recording_end {
  std::string ended; ///< as in the report: "completed", "stopped", ...
  std::string why;
  std::vector<std::uint32_t> lost;       ///< ranks of workers that died
  std::vector<recorded_switch> switches; ///< each was written when it happened
  std::string parameters_sha256;         ///< empty if there are none
};

/// A recorded run.
struct recording {
  std::string name; ///< name of the file, for messages
  recording_header header;
  std::vector<std::vector<order_entry>> entries;   ///< by shard, in its order
  std::vector<std::vector<std::uint64_t>> batches; ///< by rank: the numbers of those dealt, in order
  std::vector<std::vector<dealt_incarnation>> incarnations{}; ///< by rank, ascending; empty: all are 0
  recording_end end;
  /// The recording was not completed, since its run was killed or the disk was full: it may be cut, and `end`
  /// has only switches.
  bool killed = false;
};

/// What a stream cannot do with its file. Each returns 0 or an errno; null: nothing is to be done.
struct recording_file_calls {
  std::function<int()> keep; ///< called after the end is written: puts the file in its place
  std::function<int()> sync; ///< waits until what is written is on the disk
  /// Gives the file up and leaves its first bytes, so many; 0: none. Returns its name then, or "".
  std::function<std::string(std::uint64_t)> leave{};
  std::function<std::uint64_t()> room{}; ///< the bytes that the disk has left
};

/// Writes a recording during the run, so it needs memory for only a few entries.
/// Units   bytes: "mgradrec", u32 format, u32 n, n of JSON (the header); then parts, each u32 source, u32 n
///         and n entries or deals; a switch and the end, which is the last part, are n bytes of JSON. The
///         header and each part are followed by the CRC-32 of all before as u32, the end also by "recorded".
///         All little endian. An entry takes 16 bytes: u8 kind, u16 worker, u40 step, i64 arrival; a deal
///         takes 8: u16 worker, u48 number. So with one shard an update takes 24 bytes, with more of them
///         less for each.
/// Errors  only end() throws: std::runtime_error if any part could not be written.
/// Threads one caller at a time.
class recording_writer {
public:
  using file_calls = recording_file_calls;

  recording_writer(std::unique_ptr<std::ostream> out, std::string name, const recording_header& header,
                   file_calls file = {});
  ~recording_writer();
  recording_writer(const recording_writer&) = delete;
  recording_writer& operator=(const recording_writer&) = delete;
  /// Writes another header in place of the first, for a run that has learned more of itself before anything
  /// else was written. It must not be shorter.
  void begin_again(const recording_header& header);
  /// From now on, what is whole stays as that of a killed run if the recording is given up without an end.
  void keep_if_abandoned() noexcept { stays_ = true; }
  void add_entries(std::uint32_t shard, std::span<const order_entry> entries);
  void add_deals(std::span<const recorded_deal> deals);
  void add_switch(const recorded_switch& s);
  /// Writes the end without its switches, which add_switch() has written.
  void end(const recording_end& e);
  void sync(); ///< waits until all that is written is on the disk, where a power failure leaves it
  bool failed() const noexcept { return failure_ != 0; } ///< whether anything could not be written so far
  /// Why, in the words of the system.
  std::string why_failed() const { return std::generic_category().message(failure_); }
  /// Ends a recording that has failed, once. Its whole parts are left to be repeated as those of a killed
  /// run, but only the first of them where the disk would else have less than `room` bytes for others.
  recording_account give_up(std::uint64_t room);

private:
  void write_header(const recording_header& header);
  void add_alike(std::span<const recorded_deal> deals);
  /// Flushes each part to the file, so that it is there even if the process is killed.
  void write(std::string bytes, std::string_view last = {});
  void note_end_of_part();
  std::uint64_t end_of_part_before(std::uint64_t bytes) const;

  std::unique_ptr<std::ostream> out_;
  std::string name_;
  file_calls file_;
  unsigned long checksum_ = 0;
  int failure_ = 0;                 ///< errno of the first failure
  bool stays_ = false;              ///< without an end
  bool over_ = false;               ///< it has its end, or was given up
  std::uint64_t header_ = 0;        ///< bytes
  std::uint64_t whole_ = 0;         ///< bytes of the header and of all parts that were written
  std::vector<std::uint64_t> ends_; ///< where parts end, at least `apart_` bytes from one to the next
  std::uint64_t apart_ = 0;
};

/// Opens PATH.partial to record into. It takes the place of PATH at the end of the recording, and is removed
/// if there is no end. A PATH.partial that a killed run left is renamed to PATH.killed, if there is none yet.
/// Errors  std::system_error, also if the header cannot be written; recording_error if there are more workers
///         or shards than a recording can number, or if another run is recording into this file.
std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header);

/// The same for a run that goes on from a checkpoint: the recording begins with `before`, which part_before()
/// has read from a file. If that was PATH.partial, it is PATH.before until all of it is written again, so
/// that it is not lost whenever the run is killed.
/// Errors  as create_recording(); std::runtime_error if it cannot be written.
std::unique_ptr<recording_writer> continue_recording(const std::string& path, const recording_header& header,
                                                     const recording& before);

/// Reads a recording from memory. `name` is for messages.
/// Errors  recording_error: foreign, of another format, cut short, damaged, or inconsistent.
recording parse_recording(std::string_view bytes, const std::string& name);

/// Reads the recording of a killed run: all parts up to the first that is incomplete.
/// Errors  recording_error: foreign, of another format, inconsistent, or without a whole header.
recording parse_killed_recording(std::string_view bytes, const std::string& name);

/// Reads a recording from a file, but no further than its first bytes if those are wrong. PATH.partial,
/// PATH.before and PATH.killed are read as recordings of killed runs.
/// Errors  std::system_error if the file cannot be read; recording_error if a run is writing it; as
///         parse_recording() and parse_killed_recording().
recording read_recording(const std::string& path);

/// Checks whether a recording can be repeated, as far as this follows from the recording alone. rehearsal.hpp
/// also checks with the options of the run whether a replay reaches its end.
/// Errors  recording_error, with the place: the run lost a shard or its feeder, or was killed after workers
///         had come or gone, so the order alone cannot repeat it; an entry is missing, repeated or out of
///         order; a batch was trained twice; or the run switches to a policy that is unknown or has no order.
void require_repeatable(const recording& r);

} // namespace mailgrad
