#include <mailgrad/actors/recording.hpp>

#include <mailgrad/actors/little_endian.hpp>
#include <mailgrad/data/replaced_file.hpp>
#include <mailgrad/graph/models/json_depth.hpp>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view first_word = "mgradrec";
constexpr std::string_view last_word = "recorded";
constexpr std::uint32_t known_format = 1;
constexpr std::uint32_t feeder_source = 0xffffffff;
constexpr std::uint32_t end_source = 0xfffffffe;
constexpr std::size_t turn_bytes = 16;
constexpr std::size_t deal_bytes = 8;
constexpr std::size_t most_workers = 0x10000;

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
  throw recording_error("recording '" + name + "' " + why);
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

json to_json(const recording_end& e) {
  json switches = json::array();
  for (const recorded_switch& s : e.switches)
    switches.push_back(
        {{"policy", s.policy}, {"why", s.why}, {"batches", s.batches}, {"present", s.present}});
  return {{"ended", e.ended},
          {"why", e.why},
          {"lost", e.lost},
          {"switches", switches},
          {"parameters_sha256", e.parameters_sha256}};
}

recording_end end_from(const json& j) {
  recording_end e;
  e.ended = j.at("ended").get<std::string>();
  e.why = j.at("why").get<std::string>();
  e.lost = j.at("lost").get<std::vector<std::uint32_t>>();
  for (const json& s : j.at("switches"))
    e.switches.push_back({s.at("policy").get<std::string>(), s.at("why").get<std::string>(),
                          s.at("batches").get<std::vector<std::uint64_t>>(),
                          s.at("present").get<std::vector<std::uint8_t>>()});
  e.parameters_sha256 = j.at("parameters_sha256").get<std::string>();
  return e;
}

/// Takes a recording apart whose checksum is right. Its lengths are checked all the same.
class parser {
public:
  parser(std::string_view body, const std::string& name) : rest_(body), name_(name) {}

  recording parse() {
    take(first_word.size() + 4);
    r_.name = name_;
    try {
      r_.header = header_from(parsed(take(take_number())));
      size_lists();
      while (take_part()) {
      }
    } catch (const json::exception& e) {
      refuse(name_, "holds a text that cannot be read: " + std::string(e.what()));
    }
    if (!rest_.empty()) refuse(name_, "goes on after its end, by " + std::to_string(rest_.size()) + " bytes");
    return std::move(r_);
  }

private:
  std::string_view take(std::size_t bytes) {
    if (rest_.size() < bytes)
      refuse(name_, "is damaged: expected " + std::to_string(bytes) + " bytes more, found " +
                        std::to_string(rest_.size()));
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
      refuse(name_, "is of " + std::to_string(r_.header.workers) + " workers and " +
                        std::to_string(r_.header.shards) + " shards; expected 1 to 65536 of each");
    r_.batches.resize(r_.header.workers);
    r_.turns.resize(r_.header.shards);
  }

  bool take_part() {
    const std::uint32_t source = take_number();
    const std::size_t count = take_number();
    if (source == end_source) {
      r_.end = end_from(parsed(take(count)));
      return false;
    }
    if (source == feeder_source)
      take_deals(count);
    else
      take_turns(source, count);
    return true;
  }

  rank known(std::uint64_t worker) const {
    if (worker >= r_.header.workers)
      refuse(name_, "names worker " + std::to_string(worker) + " of " + std::to_string(r_.header.workers));
    return {static_cast<std::uint32_t>(worker)};
  }

  void take_deals(std::size_t count) {
    for (std::string_view all = take(count * deal_bytes); !all.empty(); all.remove_prefix(deal_bytes))
      r_.batches[known(number_in<2>(all)).value].push_back(number_in<6>(all.substr(2)));
  }

  void take_turns(std::uint32_t shard, std::size_t count) {
    if (shard >= r_.header.shards)
      refuse(name_, "names shard " + std::to_string(shard) + " of " + std::to_string(r_.header.shards));
    for (std::string_view all = take(count * turn_bytes); !all.empty(); all.remove_prefix(turn_bytes)) {
      const auto kind = static_cast<unsigned char>(all[0]);
      if (kind > static_cast<unsigned char>(shard_turn::kind::switched))
        refuse(name_, "holds a turn of kind " + std::to_string(kind) + "; expected 0 to 3");
      r_.turns[shard].push_back({static_cast<shard_turn::kind>(kind), known(number_in<2>(all.substr(1))),
                                 number_in<5>(all.substr(3)), 0,
                                 static_cast<std::int64_t>(number_in<8>(all.substr(8)))});
    }
  }

  std::string_view rest_;
  const std::string& name_;
  recording r_;
};

/// What a recording begins with.
void require_known(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(first_word)) refuse(name, "is no recording: it does not begin with 'mgradrec'");
  if (bytes.size() < first_word.size() + 4) refuse(name, "is cut short: it has no format");
  const std::uint64_t format = number_in<4>(bytes.substr(first_word.size()));
  if (format != known_format)
    refuse(name, "has format " + std::to_string(format) + "; this version reads format " +
                     std::to_string(known_format));
}

} // namespace

recording_writer::recording_writer(std::unique_ptr<std::ostream> out, std::string name,
                                   const recording_header& header, std::function<int()> keep)
    : out_(std::move(out)), name_(std::move(name)), keep_(std::move(keep)) {
  const std::string text = to_json(header).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string bytes(first_word);
  append_number<4>(bytes, known_format);
  append_number<4>(bytes, text.size());
  write(bytes + text);
}

void recording_writer::write(std::string_view bytes) {
  if (failure_ != 0) return;
  checksum_ = crc(checksum_, bytes);
  errno = 0;
  if (!out_->write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) failure_ = errno ? errno : EIO;
}

void recording_writer::add_turns(std::uint32_t shard, std::span<const shard_turn> turns) {
  if (turns.empty()) return;
  std::string bytes = part(shard, turns.size());
  bytes.reserve(bytes.size() + turns.size() * turn_bytes);
  for (const shard_turn& t : turns) {
    append_number<1>(bytes, static_cast<std::uint64_t>(t.what));
    append_number<2>(bytes, t.worker.value);
    append_number<5>(bytes, t.step);
    append_number<8>(bytes, static_cast<std::uint64_t>(t.arrived));
  }
  write(bytes);
}

void recording_writer::add_deals(std::span<const recorded_deal> deals) {
  if (deals.empty()) return;
  std::string bytes = part(feeder_source, deals.size());
  bytes.reserve(bytes.size() + deals.size() * deal_bytes);
  for (const recorded_deal& d : deals) {
    append_number<2>(bytes, d.worker.value);
    append_number<6>(bytes, d.number);
  }
  write(bytes);
}

void recording_writer::end(const recording_end& e) {
  const std::string text = to_json(e).dump(-1, ' ', false, json::error_handler_t::replace);
  write(part(end_source, text.size()) + text);
  std::string bytes;
  append_number<4>(bytes, checksum_);
  write(bytes.append(last_word));
  errno = 0;
  if (failure_ == 0 && !out_->flush()) failure_ = errno ? errno : EIO;
  if (failure_ == 0 && keep_) failure_ = keep_();
  if (failure_ != 0)
    throw std::runtime_error("recording '" + name_ +
                             "' cannot be written: " + std::generic_category().message(failure_));
}

std::unique_ptr<recording_writer> create_recording(const std::string& path, const recording_header& header) {
  if (header.workers > most_workers || header.shards > most_workers)
    refuse(path, "can number 65536 workers and shards, not " +
                     std::to_string(std::max(header.workers, header.shards)));
  auto file = std::make_unique<replaced_file>(path);
  if (!file->is_open())
    throw std::system_error(errno, std::generic_category(), "recording '" + path + "' cannot be written");
  replaced_file* const kept = file.get(); // the writer has it as long as it lives
  return std::make_unique<recording_writer>(std::move(file), path, header, [kept] { return kept->keep(); });
}

recording parse_recording(std::string_view bytes, const std::string& name) {
  constexpr std::size_t tail = 4 + last_word.size();
  require_known(bytes, name);
  if (bytes.size() < first_word.size() + 8 + tail || !bytes.ends_with(last_word))
    refuse(name, "is cut short: expected 'recorded' as its last word");
  const std::string_view body = bytes.substr(0, bytes.size() - tail);
  const std::uint64_t expected = number_in<4>(bytes.substr(body.size()));
  const std::uint64_t found = crc(0, body);
  if (expected != found)
    refuse(name,
           "is damaged: expected checksum " + std::to_string(expected) + ", found " + std::to_string(found));
  return parser(body, name).parse();
}

recording read_recording(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(first_word.size() + 4, '\0');
  if (file.is_open())
    bytes.resize(static_cast<std::size_t>(file.read(bytes.data(), std::ssize(bytes)).gcount()));
  if (file.is_open() && !file.bad()) require_known(bytes, path); // before memory is taken for all of it
  if (file.good()) bytes.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad())
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                            "recording '" + path + "' cannot be read");
  return parse_recording(bytes, path);
}

} // namespace mailgrad
