#include <mailgrad/engine/record/recording.hpp>

#include <mailgrad/files/little_endian.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/graph/models/json_depth.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view first_word = "mgradrec";
constexpr std::string_view last_word = "recorded";
constexpr std::uint32_t known_format = 2;
constexpr std::uint32_t feeder_source = 0xffffffff;
constexpr std::uint32_t end_source = 0xfffffffe;
constexpr std::uint32_t switch_source = 0xfffffffd;
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t turn_bytes = 16;
constexpr std::size_t deal_bytes = 8;
constexpr std::size_t most_workers = 0x10000;
const std::string partial_suffix = replaced_file::partial("");
constexpr std::string_view killed_suffix =
    ".killed"; ///< the next run renames the partial file of a killed run with this

std::string part(std::uint32_t source, std::size_t count) {
  std::string bytes;
  append_number<4>(bytes, source);
  append_number<4>(bytes, count);
  return bytes;
}

unsigned long crc(unsigned long before, std::string_view bytes) {
  return crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' {}", name, why));
}

json to_json(const recording_header& h) {
  json facts = json::object();
  for (const auto& [fact, value] : h.facts) facts[fact] = value;
  return {{"workers", h.workers}, {"shards", h.shards}, {"facts", facts}, {"words", h.words}};
}

recording_header header_from(const json& j) {
  recording_header h;
  h.workers = j.at("workers").get<std::uint32_t>();
  h.shards = j.at("shards").get<std::uint32_t>();
  for (const auto& [fact, value] : j.at("facts").items())
    h.facts.emplace_back(fact, value.get<std::string>());
  h.words = j.at("words").get<std::vector<std::string>>();
  return h;
}

json to_json(const recorded_switch& s) {
  return {{"policy", s.policy}, {"why", s.why}, {"batches", s.batches}, {"present", s.present}};
}

recorded_switch switch_from(const json& j) {
  return {j.at("policy").get<std::string>(), j.at("why").get<std::string>(),
          j.at("batches").get<std::vector<std::uint64_t>>(),
          j.at("present").get<std::vector<std::uint8_t>>()};
}

json to_json(const recording_end& e) {
  return {{"ended", e.ended}, {"why", e.why}, {"lost", e.lost}, {"parameters_sha256", e.parameters_sha256}};
}

recording_end end_from(const json& j) {
  recording_end e;
  e.ended = j.at("ended").get<std::string>();
  e.why = j.at("why").get<std::string>();
  e.lost = j.at("lost").get<std::vector<std::uint32_t>>();
  e.parameters_sha256 = j.at("parameters_sha256").get<std::string>();
  return e;
}

/// Parses a recording whose last checksum is right. The recording of a killed run is parsed as far as the
/// checksums of its parts are right. Lengths are checked in both cases.
class parser {
public:
  parser(std::string_view bytes, const std::string& name) : all_(bytes), rest_(bytes), name_(name) {}

  recording parse() {
    return guarded([this] {
      take_header();
      while (take_part()) {
      }
      if (!rest_.empty()) refuse(name_, fmt::format("goes on after its end, by {} bytes", rest_.size()));
    });
  }

  recording parse_killed() {
    return guarded([this] {
      r_.killed = true;
      const std::size_t head = first_word.size() + 8;
      if (rest_.size() < head || !is_whole(head + number_in<4>(rest_.substr(head - 4))))
        refuse(name_, "has no whole header: its run was killed before it had written one");
      take_header();
      while (part_is_whole()) take_part();
    });
  }

private:
  template <class Steps>
  recording guarded(Steps steps) {
    r_.name = name_;
    try {
      steps();
    } catch (const json::exception& e) {
      refuse(name_, "holds a text that cannot be read: " + std::string(e.what()));
    }
    return std::move(r_);
  }

  void take_header() {
    take(first_word.size() + 4);
    r_.header = header_from(parsed(take(take_number())));
    take(checksum_bytes);
    size_lists();
  }

  /// Whether so many bytes follow, and then the right checksum of all bytes before it.
  bool is_whole(std::size_t bytes) {
    if (rest_.size() < bytes + checksum_bytes) return false;
    const std::size_t end = all_.size() - rest_.size() + bytes;
    checksum_ = crc(checksum_, all_.substr(summed_, end - summed_));
    summed_ = end;
    return number_in<4>(all_.substr(end)) == checksum_;
  }
  /// Whether a whole part follows. An end does not count, because the recording of a killed run has none.
  bool part_is_whole() {
    if (rest_.size() < 8) return false;
    const auto source = static_cast<std::uint32_t>(number_in<4>(rest_));
    const std::size_t count = number_in<4>(rest_.substr(4));
    return source != end_source && is_whole(8 + count * bytes_of_entry(source));
  }
  static std::size_t bytes_of_entry(std::uint32_t source) {
    if (source == switch_source || source == end_source) return 1;
    return source == feeder_source ? deal_bytes : turn_bytes;
  }

  std::string_view take(std::size_t bytes) {
    if (rest_.size() < bytes)
      refuse(name_, fmt::format("is damaged: expected {} bytes more, found {}", bytes, rest_.size()));
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  json parsed(std::string_view text) const {
    if (is_too_deep(text)) refuse(name_, "holds a text that is nested too deep");
    return json::parse(text);
  }
  std::uint32_t take_number() { return static_cast<std::uint32_t>(number_in<4>(take(4))); }

  void size_lists() {
    if (r_.header.workers == 0 || r_.header.workers > most_workers || r_.header.shards == 0 ||
        r_.header.shards > most_workers)
      refuse(name_, fmt::format("is of {} workers and {} shards; expected 1 to 65536 of each",
                                r_.header.workers, r_.header.shards));
    r_.batches.resize(r_.header.workers);
    r_.turns.resize(r_.header.shards);
  }

  bool take_part() {
    const std::uint32_t source = take_number();
    const std::size_t count = take_number();
    if (source == end_source)
      take_end(count);
    else if (source == switch_source)
      r_.end.switches.push_back(switch_from(parsed(take(count))));
    else if (source == feeder_source)
      take_deals(count);
    else
      take_turns(source, count);
    take(checksum_bytes);
    return source != end_source;
  }

  void take_end(std::size_t bytes) {
    std::vector<recorded_switch> switches = std::move(r_.end.switches);
    r_.end = end_from(parsed(take(bytes)));
    r_.end.switches = std::move(switches);
  }

  rank known(std::uint64_t worker) const {
    if (worker >= r_.header.workers)
      refuse(name_, fmt::format("names worker {} of {}", worker, r_.header.workers));
    return {static_cast<std::uint32_t>(worker)};
  }

  void take_deals(std::size_t count) {
    for (std::string_view all = take(count * deal_bytes); !all.empty(); all.remove_prefix(deal_bytes))
      r_.batches[known(number_in<2>(all)).value].push_back(number_in<6>(all.substr(2)));
  }

  void take_turns(std::uint32_t shard, std::size_t count) {
    if (shard >= r_.header.shards)
      refuse(name_, fmt::format("names shard {} of {}", shard, r_.header.shards));
    for (std::string_view all = take(count * turn_bytes); !all.empty(); all.remove_prefix(turn_bytes)) {
      const auto kind = static_cast<unsigned char>(all[0]);
      if (kind > static_cast<unsigned char>(order_entry::kind::switched))
        refuse(name_, fmt::format("holds a turn of kind {}; expected 0 to 3", kind));
      r_.turns[shard].push_back({static_cast<order_entry::kind>(kind), known(number_in<2>(all.substr(1))),
                                 number_in<5>(all.substr(3)), 0,
                                 static_cast<std::int64_t>(number_in<8>(all.substr(8)))});
    }
  }

  std::string_view all_;
  std::string_view rest_;
  const std::string& name_;
  unsigned long checksum_ = 0; ///< of the first `summed_` bytes
  std::size_t summed_ = 0;
  recording r_;
};

/// Checks the first bytes of a recording: its magic word and its format.
void require_known(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(first_word)) refuse(name, "is no recording: it does not begin with 'mgradrec'");
  if (bytes.size() < first_word.size() + 4) refuse(name, "is cut short: it has no format");
  const std::uint64_t format = number_in<4>(bytes.substr(first_word.size()));
  if (format != known_format)
    refuse(name, fmt::format("has format {}; this version reads format {}", format, known_format));
}

std::string hint_at_partial(const std::string& path) {
  const std::string partial = replaced_file::partial(path);
  return std::filesystem::exists(partial)
             ? " (a run that was killed, or has not ended, left '" + partial + "')"
             : "";
}

bool is_of_killed(const std::string& path) {
  return path.ends_with(partial_suffix) || path.ends_with(killed_suffix);
}

/// Renames the recording of a killed run, because a script may start the next run before a user has looked at
/// it. If it cannot be renamed, the next run is refused. If an older one is kept already, that one remains
/// and the newer one is overwritten.
void keep_killed(const std::string& path) {
  const std::string real = replaced_file::without_links(path);
  const std::string partial = replaced_file::partial(real), kept = real + std::string(killed_suffix);
  std::string begin(first_word.size(), '\0');
  std::ifstream(partial, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (begin != first_word || std::filesystem::exists(kept)) return;
  if (replaced_file::move_abandoned(partial, kept) || replaced_file::is_being_written(partial)) return;
  refuse(partial, "was left by a run that was killed, and cannot be renamed to '" + kept + "'; move it away");
}

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace

recording_error::recording_error(const std::string& what) : std::invalid_argument(in_one_line(what)) {}

recording_writer::recording_writer(std::unique_ptr<std::ostream> out, std::string name,
                                   const recording_header& header, std::function<int()> keep)
    : out_(std::move(out)), name_(std::move(name)), keep_(std::move(keep)) {
  const std::string text = to_json(header).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string bytes(first_word);
  append_number<4>(bytes, known_format);
  append_number<4>(bytes, text.size());
  write(bytes + text);
}

void recording_writer::write(std::string bytes, std::string_view last) {
  if (failure_ != 0) return;
  checksum_ = crc(checksum_, bytes);
  const std::size_t summed = bytes.size();
  append_number<checksum_bytes>(bytes, checksum_);
  checksum_ = crc(checksum_, std::string_view(bytes).substr(summed));
  bytes += last;
  errno = 0;
  out_->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out_->flush()) failure_ = errno ? errno : EIO;
}

void recording_writer::add_turns(std::uint32_t shard, std::span<const order_entry> turns) {
  if (turns.empty()) return;
  std::string bytes = part(shard, turns.size());
  bytes.reserve(bytes.size() + turns.size() * turn_bytes);
  for (const order_entry& t : turns) {
    append_number<1>(bytes, static_cast<std::uint64_t>(t.what));
    append_number<2>(bytes, t.worker.value);
    append_number<5>(bytes, t.step.value);
    append_number<8>(bytes, static_cast<std::uint64_t>(t.arrived));
  }
  write(std::move(bytes));
}

void recording_writer::add_deals(std::span<const recorded_deal> deals) {
  if (deals.empty()) return;
  std::string bytes = part(feeder_source, deals.size());
  bytes.reserve(bytes.size() + deals.size() * deal_bytes);
  for (const recorded_deal& d : deals) {
    append_number<2>(bytes, d.worker.value);
    append_number<6>(bytes, d.number);
  }
  write(std::move(bytes));
}

void recording_writer::add_switch(const recorded_switch& s) {
  const std::string text = to_json(s).dump(-1, ' ', false, json::error_handler_t::replace);
  write(part(switch_source, text.size()) + text);
}

void recording_writer::end(const recording_end& e) {
  const std::string text = to_json(e).dump(-1, ' ', false, json::error_handler_t::replace);
  write(part(end_source, text.size()) + text, last_word);
  if (failure_ == 0 && keep_) failure_ = keep_();
  if (failure_ != 0)
    throw std::runtime_error("recording '" + name_ +
                             "' cannot be written: " + std::generic_category().message(failure_));
}

std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header) {
  if (header.workers > most_workers || header.shards > most_workers)
    refuse(path, fmt::format("can number 65536 workers and shards, not {}",
                             std::max(header.workers, header.shards)));
  if (replaced_file::can_replace(path)) keep_killed(path);
  auto file = std::make_unique<replaced_file>(path, replaced_file::if_taken::fail);
  if (!file->is_open() && errno == EWOULDBLOCK)
    refuse(path,
           "cannot be written: another run is recording into it; name another file, or wait for its end");
  if (!file->is_open())
    throw std::system_error(errno, std::generic_category(), "recording '" + path + "' cannot be written");
  replaced_file* const kept = file.get(); // valid as long as the writer, which owns it
  return std::make_unique<recording_writer>(std::move(file), path, header, [kept] { return kept->keep(); });
}

recording parse_recording(std::string_view bytes, const std::string& name) {
  constexpr std::size_t tail = checksum_bytes + last_word.size();
  require_known(bytes, name);
  if (bytes.size() < first_word.size() + 8 + tail || !bytes.ends_with(last_word))
    refuse(name, "is cut short, or has more behind its end: expected 'recorded' as its last word");
  const std::string_view body = bytes.substr(0, bytes.size() - tail);
  const std::uint64_t expected = number_in<4>(bytes.substr(body.size()));
  const std::uint64_t found = crc(0, body);
  if (expected != found)
    refuse(name, fmt::format("is damaged: expected checksum {}, found {}", expected, found));
  return parser(bytes.substr(0, bytes.size() - last_word.size()), name).parse();
}

recording parse_killed_recording(std::string_view bytes, const std::string& name) {
  require_known(bytes, name);
  return parser(bytes, name).parse_killed();
}

recording read_recording(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(first_word.size() + 4, '\0');
  if (file.is_open())
    bytes.resize(static_cast<std::size_t>(file.read(bytes.data(), std::ssize(bytes)).gcount()));
  if (file.is_open() && !file.bad()) require_known(bytes, path); // before the whole file is read
  if (file.good()) bytes.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  const int why = errno;
  if (!file.is_open() || file.bad())
    throw std::system_error(why != 0 ? why : EIO, std::generic_category(),
                            "recording '" + path + "' cannot be read" + hint_at_partial(path));
  if (is_of_killed(path) && !bytes.ends_with(last_word)) {
    if (replaced_file::is_being_written(path)) refuse(path, "is being written by a run; wait for its end");
    return parse_killed_recording(bytes, path);
  }
  return parse_recording(bytes, path);
}

} // namespace mailgrad
