#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <nlohmann/json.hpp>

// What the writer and the reader of a recording must agree about. recording_writer describes the bytes.

namespace mailgrad::recording_file {

using json = nlohmann::ordered_json;

inline constexpr std::string_view first_word = "mgradrec";
inline constexpr std::string_view last_word = "recorded";
inline constexpr std::uint32_t known_format = 2;
inline constexpr std::uint32_t feeder_source = 0xffffffff;
inline constexpr std::uint32_t end_source = 0xfffffffe;
inline constexpr std::uint32_t switch_source = 0xfffffffd;
inline constexpr std::uint32_t begun_source = 0xfffffffc;    ///< deals whose numbers are incarnations
inline constexpr std::uint32_t returned_source = 0xfffffffb; ///< deals that were taken back
inline constexpr std::size_t checksum_bytes = 4;
inline constexpr std::size_t entry_bytes = 16;
inline constexpr std::size_t deal_bytes = 8;
inline constexpr std::size_t most_workers = 0x10000;
inline constexpr std::uint64_t latest_time = 1ULL << 62; ///< in ns; differences do not overflow

/// What the recording of a killed run is called after the next run into the same file.
inline constexpr std::string_view killed_suffix = ".killed";
/// What it is called while a run that goes on writes it again.
inline constexpr std::string_view before_suffix = ".before";

/// Returns the checksum of all bytes before, whose checksum is `before`, and of these.
unsigned long crc(unsigned long before, std::string_view bytes);

/// Errors  recording_error: "recording 'name' why"
[[noreturn]] void refuse(const std::string& name, const std::string& why);

// As JSON, with texts as text_in_json() gives them.
std::string text_of(const recording_header& h);
std::string text_of(const recorded_switch& s);
std::string text_of(const recording_end& e);

// Errors  json::exception: a field is missing or of another type
recording_header header_from(const json& j);
recorded_switch switch_from(const json& j);
recording_end end_from(const json& j, std::vector<recorded_switch> switches);

} // namespace mailgrad::recording_file

namespace mailgrad {

/// The part of a checkpoint that tells how much of the recording of its run lies before it.
inline constexpr const char* recording_part = "recording";

/// How much of a recording lies before a checkpoint. What a resumed run records follows that.
struct recording_cut {
  std::string file;                       ///< into which it is recorded, as an absolute path
  bool failed = false;                    ///< something before could not be written
  std::vector<std::uint64_t> entries{};   ///< by shard
  std::vector<std::uint32_t> checksums{}; ///< of these entries, so that those of another run are told apart

  explicit recording_cut(std::uint32_t shards = 0) : entries(shards), checksums(shards) {}
  void add(std::uint32_t shard, std::span<const order_entry> more); ///< counts entries that are recorded
  void keep(archive& a);
};

/// The part of a recording before a checkpoint. `trained`: batches of each worker; `switches` of the policy.
/// Errors  recording_error: it is of another run, does not go so far, or has a worker that had left.
recording part_before(const recording& r, const recording_cut& at, std::span<const std::uint64_t> trained,
                      std::size_t switches);

/// Writes all entries, deals and switches of `what`, as if they were noted now.
void write_again(recording_writer& to, const recording& what);

} // namespace mailgrad
