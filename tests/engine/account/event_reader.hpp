#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// A reader of TensorBoard's event files that shares nothing with their writer: neither the checksum nor the
// classes that protoc makes.

namespace mailgrad::testing {

struct read_histogram {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  std::vector<double> bucket_limit, bucket;
};

struct read_event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version;
  bool starts = false; ///< it is the start of a session
  std::map<std::string, float> scalars;
  std::map<std::string, read_histogram> histograms;
  std::map<std::string, std::string> texts;   ///< of the plugin "text"
  std::map<std::string, std::string> options; ///< of the plugin "hparams"; numbers as std::to_string()
};

struct wire_field {
  std::uint64_t number = 0;
  std::uint64_t bits = 0;   ///< of a number
  std::string_view bytes{}; ///< of a text or message
  double real() const { return std::bit_cast<double>(bits); }
};

inline std::uint64_t take_bytes(std::string_view& from, std::size_t count) {
  if (from.size() < count) throw std::runtime_error("the message is cut");
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) bits |= std::uint64_t{static_cast<unsigned char>(from[i])} << 8 * i;
  from.remove_prefix(count);
  return bits;
}

inline std::uint64_t take_varint(std::string_view& from) {
  std::uint64_t bits = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = take_bytes(from, 1);
    bits |= (byte & 0x7f) << shift;
    if (byte < 0x80) return bits;
  }
  throw std::runtime_error("a number of the message has no end");
}

inline std::vector<wire_field> fields_of(std::string_view message) {
  std::vector<wire_field> found;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message), type = key & 7;
    wire_field f{key >> 3};
    if (type == 0) {
      f.bits = take_varint(message);
    } else if (type == 1 || type == 5) {
      f.bits = take_bytes(message, type == 1 ? 8 : 4);
    } else if (type == 2) {
      const std::uint64_t length = take_varint(message);
      if (message.size() < length) throw std::runtime_error("the message is cut");
      f.bytes = message.substr(0, length);
      message.remove_prefix(length);
    } else {
      throw std::runtime_error("the message has a field of an unknown type");
    }
    found.push_back(f);
  }
  return found;
}

inline std::vector<double> reals_in(std::string_view packed) {
  std::vector<double> all;
  while (!packed.empty()) all.push_back(std::bit_cast<double>(take_bytes(packed, 8)));
  return all;
}

inline read_histogram histogram_in(std::string_view message) {
  read_histogram h;
  for (const wire_field& f : fields_of(message)) {
    if (f.number == 6) h.bucket_limit = reals_in(f.bytes);
    if (f.number == 7) h.bucket = reals_in(f.bytes);
    const std::array<double*, 6> plain{nullptr, &h.min, &h.max, &h.num, &h.sum, &h.sum_squares};
    if (f.number < plain.size()) *plain[f.number] = f.real();
  }
  return h;
}

/// The bytes behind these numbers, each a field of the message before it; nothing if one is not there.
inline std::string_view bytes_at(std::string_view message, std::initializer_list<std::uint64_t> path) {
  for (const std::uint64_t number : path) {
    const std::vector<wire_field> fields = fields_of(message);
    const auto found = std::ranges::find(fields, number, &wire_field::number);
    if (found == fields.end()) return {};
    message = found->bytes;
  }
  return message;
}

inline std::map<std::string, std::string> options_in(std::string_view content) {
  std::map<std::string, std::string> all;
  for (const wire_field& entry : fields_of(bytes_at(content, {3}))) {
    if (entry.number != 1) continue;
    const wire_field value = fields_of(bytes_at(entry.bytes, {2})).at(0);
    all[std::string(bytes_at(entry.bytes, {1}))] =
        value.number == 2 ? std::to_string(value.real()) : std::string(value.bytes);
  }
  return all;
}

inline void add_summary(read_event& to, std::string_view message) {
  for (const wire_field& value : fields_of(message)) {
    std::string tag;
    const std::string_view plugin = bytes_at(value.bytes, {9, 1, 1});
    if (plugin == "hparams") to.options = options_in(bytes_at(value.bytes, {9, 1, 2}));
    for (const wire_field& f : fields_of(value.bytes)) {
      if (f.number == 1) tag = f.bytes;
      if (f.number == 8 && plugin == "text") to.texts[tag] = bytes_at(f.bytes, {8});
      if (f.number == 2) to.scalars[tag] = std::bit_cast<float>(static_cast<std::uint32_t>(f.bits));
      if (f.number == 5) to.histograms[tag] = histogram_in(f.bytes);
    }
  }
}

inline read_event event_in(std::string_view message) {
  read_event e;
  for (const wire_field& f : fields_of(message)) {
    if (f.number == 1) e.wall_time = f.real();
    if (f.number == 2) e.step = f.bits;
    if (f.number == 3) e.file_version = f.bytes;
    if (f.number == 5) add_summary(e, f.bytes);
    if (f.number == 7) e.starts = f.bytes == "\x08\x01";
  }
  return e;
}

/// Bit by bit, where the writer has a table.
inline std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t sum = ~0U;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1U ? 0x82F63B78U : 0U);
  }
  sum = ~sum;
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

/// The events of whole records. A record that is cut ends them.
///
/// Errors  std::runtime_error: a checksum is wrong.
inline std::vector<read_event> events_in(const std::filesystem::path& file) {
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string all = content.str();
  std::vector<read_event> events;
  for (std::string_view rest = all; rest.size() >= 12;) {
    std::string_view head = rest.substr(0, 12);
    const std::uint64_t length = take_bytes(head, 8);
    if (take_bytes(head, 4) != masked_crc(rest.substr(0, 8))) throw std::runtime_error("a length is damaged");
    if (rest.size() - 12 < length + 4) break;
    const std::string_view data = rest.substr(12, length);
    std::string_view tail = rest.substr(12 + length, 4);
    if (take_bytes(tail, 4) != masked_crc(data)) throw std::runtime_error("a record is damaged");
    events.push_back(event_in(data));
    rest.remove_prefix(length + 16);
  }
  return events;
}

/// The event files of a folder in the order of their names.
inline std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

} // namespace mailgrad::testing
