#include <mailgrad/net/features.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace mailgrad::net {

namespace {

void check_sizes(std::string_view name, std::string_view value) {
  if (name.empty() || name.size() > most_feature_name_bytes || value.size() > most_feature_value_bytes)
    throw std::length_error(
        fmt::format("feature '{}': expected a name of 1 to {} bytes and at most {} bytes behind "
                    "it, found {} and {}",
                    name, most_feature_name_bytes, most_feature_value_bytes, name.size(), value.size()));
}

/// The whole text as a number, or nothing.
std::optional<std::uint64_t> whole_number(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

} // namespace

bytes encode(const features& all) {
  if (all.size() > most_features)
    throw std::length_error(
        fmt::format("features: expected at most {}, found {}", most_features, all.size()));
  bytes written;
  frame_writer to{written};
  to.u8(static_cast<std::uint8_t>(all.size()));
  for (const auto& [name, value] : all) {
    check_sizes(name, value);
    to.text(name).text(value);
  }
  return written;
}

features decode_features(std::string_view frame, byte_view payload) {
  frame_reader reader{frame, payload};
  const std::size_t count = reader.u8();
  if (count > most_features)
    reader.fail(fmt::format("expected at most {} features, found {}", most_features, count));
  features all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = reader.text();
    if (name.empty() || name.size() > most_feature_name_bytes)
      reader.fail(
          fmt::format("expected a name of 1 to {} bytes, found {}", most_feature_name_bytes, name.size()));
    const std::string_view value = reader.text();
    if (value.size() > most_feature_value_bytes)
      reader.fail(fmt::format("expected at most {} bytes of '{}', found {}", most_feature_value_bytes,
                              printable(name), value.size()));
    if (!all.emplace(name, value).second)
      reader.fail(fmt::format("expected '{}' once, found it twice", printable(name)));
  }
  reader.end();
  return all;
}

std::optional<std::string_view> found_in(const features& all, std::string_view name) noexcept {
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional<std::string_view>{found->second};
}

std::optional<std::uint64_t> number_in(const features& all, std::string_view name, std::uint64_t most) {
  const auto text = found_in(all, name);
  if (!text) return std::nullopt;
  const auto number = whole_number(*text, 10);
  if (!number || *number > most)
    throw protocol_error(
        fmt::format("{}: expected a number from 0 to {}, found '{}'", name, most, printable(*text)));
  return number;
}

std::optional<std::uint64_t> key_in(const features& all, std::string_view name) {
  const auto text = found_in(all, name);
  if (!text) return std::nullopt;
  const auto key = whole_number(*text, 16);
  if (!key || *text != key_text(*key))
    throw protocol_error(
        fmt::format("{}: expected 16 hexadecimal digits, found '{}'", name, printable(*text)));
  return key;
}

std::string key_text(std::uint64_t key) { return fmt::format("{:016x}", key); }

} // namespace mailgrad::net
