#include <mailgrad/net/hello.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/ranges.h>

#include <charconv>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 4> role_names{"server", "worker", "parameter host", "watcher"};
constexpr std::array<std::string_view, 4> wire_names{"server", "worker", "shard", "watcher"}; // for peers
constexpr std::array<std::string_view, 2> plane_names{"control", "bulk"};
constexpr auto code_names = std::to_array<std::string_view>(
    {"", "hello", "protocol", "run", "role", "place", "incarnation", "model", "data", "wire", "build",
     "session", "time", "connections", "keys", "user", "devices of a worker"});

/// Both texts of a refusal together leave room for its other bytes.
constexpr std::size_t most_refusal_text = 1024;

template <std::size_t N, class Enum>
std::string_view name_of(Enum e, const std::array<std::string_view, N>& names) noexcept {
  return names[static_cast<std::uint8_t>(e)];
}

template <class Enum, std::size_t N>
Enum named(std::string_view name, const std::array<std::string_view, N>& names, std::string_view expected) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw protocol_error("{}, found '{}'", expected, printable(name));
  return static_cast<Enum>(found - names.begin());
}

/// The whole text as a number, or nothing.
std::optional<std::uint64_t> whole_number(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

} // namespace

std::string_view to_string(role r) noexcept { return name_of(r, role_names); }
std::string_view to_string(plane p) noexcept { return name_of(p, plane_names); }
std::string_view to_string(refusal_code c) noexcept { return name_of(c, code_names); }

std::string to_string(const member& m) {
  return m.part == role::server ? "server" : fmt::format("{} {}", to_string(m.part), m.number);
}

bytes encode(const features& all) {
  if (all.size() > most_features)
    throw std::length_error(
        fmt::format("features: expected at most {}, found {}", most_features, all.size()));
  frame_writer to;
  to.u8(static_cast<std::uint8_t>(all.size()));
  for (const auto& [name, value] : all) {
    if (name.empty() || name.size() > most_feature_name_bytes || value.size() > most_feature_value_bytes)
      throw std::length_error(
          fmt::format("feature '{}': expected a name of 1 to {} bytes and at most {} bytes behind "
                      "it, found {} and {}",
                      name, most_feature_name_bytes, most_feature_value_bytes, name.size(), value.size()));
    to.text(name).text(value);
  }
  return to.take();
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
    throw protocol_error("{}: expected a number from 0 to {}, found '{}'", name, most, printable(*text));
  return number;
}

std::optional<std::uint64_t> key_in(const features& all, std::string_view name) {
  const auto text = found_in(all, name);
  if (!text) return std::nullopt;
  const auto key = whole_number(*text, 16);
  if (!key || *text != key_text(*key))
    throw protocol_error("{}: expected 16 hexadecimal digits, found '{}'", name, printable(*text));
  return key;
}

std::string key_text(std::uint64_t key) { return fmt::format("{:016x}", key); }

std::string refusal::words() const {
  return fmt::format("{}: expected {}, found {}", to_string(code), expected, found);
}

features to_features(const hello& h) {
  features all = h.says;
  const auto set = [&](std::string_view name, std::string_view value) { all[std::string(name)] = value; };
  all.try_emplace(std::string(feature::protocol), std::to_string(protocol_version));
  set(feature::role, name_of(h.part, wire_names));
  set(feature::connection, to_string(h.connection));
  if (h.number) set(feature::number, std::to_string(*h.number));
  if (h.incarnation > 0) set(feature::incarnation, std::to_string(h.incarnation));
  if (h.session != 0) set(feature::session, key_text(h.session));
  return all;
}

hello to_hello(features says) {
  hello h;
  if (const auto name = found_in(says, feature::role))
    h.part = named<role>(*name, wire_names, "role: expected worker, shard or watcher");
  if (const auto name = found_in(says, feature::connection))
    h.connection = named<plane>(*name, plane_names, "connection: expected control or bulk");
  if (const auto number = number_in(says, feature::number, UINT32_MAX))
    h.number = static_cast<std::uint32_t>(*number);
  h.incarnation = static_cast<std::uint32_t>(number_in(says, feature::incarnation, UINT32_MAX).value_or(0));
  h.session = key_in(says, feature::session).value_or(0);
  h.says = std::move(says);
  return h;
}

bytes encode(const welcome& w) {
  return frame_writer{}
      .u64(w.run)
      .u64(w.session)
      .u8(static_cast<std::uint8_t>(w.you.part))
      .u32(w.you.number)
      .u32(w.incarnation)
      .u32(static_cast<std::uint32_t>(w.times.heartbeat().count()))
      .u32(w.messages)
      .u32(w.bodies)
      .u32(w.bodies_of_client)
      .u64(w.most_body_bytes)
      .u32(w.devices)
      .take();
}

welcome decode_welcome(byte_view payload) {
  frame_reader reader{"welcome", payload};
  welcome w;
  w.run = reader.u64();
  w.session = reader.u64();
  const std::uint8_t part = reader.u8();
  if (part > static_cast<std::uint8_t>(role::watcher))
    reader.fail(fmt::format("expected a role from 0 to 3, found {}", part));
  w.you.part = static_cast<role>(part);
  w.you.number = reader.u32();
  w.incarnation = reader.u32();
  const std::chrono::milliseconds heartbeat{reader.u32()};
  if (heartbeat < timing::least_heartbeat || heartbeat > timing::most_heartbeat)
    reader.fail(fmt::format("expected a heartbeat each {} to {} ms, found {}",
                            timing::least_heartbeat.count(), timing::most_heartbeat.count(),
                            heartbeat.count()));
  w.times = timing{heartbeat};
  w.messages = reader.u32();
  w.bodies = reader.u32();
  w.bodies_of_client = reader.u32();
  w.most_body_bytes = reader.u64();
  w.devices = reader.u32();
  if (w.devices == 0) reader.fail("expected a worker of 1 device or more, found 0");
  reader.end();
  return w;
}

bytes encode(const refusal& r) {
  return frame_writer{}
      .u8(static_cast<std::uint8_t>(r.code))
      .text(std::string_view{r.expected}.substr(0, most_refusal_text))
      .text(std::string_view{r.found}.substr(0, most_refusal_text))
      .take();
}

refusal decode_refusal(byte_view payload) {
  frame_reader reader{"refusal", payload};
  const std::uint8_t code = reader.u8();
  if (code == 0 || code >= code_names.size())
    reader.fail(fmt::format("expected a code from 1 to {}, found {}", code_names.size() - 1, code));
  refusal r{static_cast<refusal_code>(code), "", ""};
  r.expected = printable(reader.text(), most_refusal_text);
  r.found = printable(reader.text(), most_refusal_text);
  reader.end();
  return r;
}

std::optional<refusal> compare(const std::vector<demand>& expected, const features& says) {
  for (const demand& d : expected) {
    const auto found = found_in(says, d.name);
    if (!found && d.optional) continue;
    if (found && std::find(d.accepted.begin(), d.accepted.end(), *found) != d.accepted.end()) continue;
    return refusal{d.code, fmt::format("{}", fmt::join(d.accepted, " or ")),
                   found ? printable(*found) : "nothing"};
  }
  return std::nullopt;
}

std::vector<demand> demands_of(const features& server, const std::vector<role>& roles,
                               const std::vector<std::string>& wires) {
  std::vector<demand> all;
  const auto same = [&](std::string_view name, refusal_code code, bool optional) {
    if (const auto mine = found_in(server, name))
      all.push_back({std::string(name), {std::string(*mine)}, code, optional});
  };
  all.push_back({std::string(feature::protocol), {std::to_string(protocol_version)}, refusal_code::protocol});
  same(feature::run, refusal_code::run, true);
  demand one_of{std::string(feature::role), {}, refusal_code::role};
  for (role r : roles) one_of.accepted.emplace_back(name_of(r, wire_names));
  all.push_back(std::move(one_of));
  same(feature::build, refusal_code::build, false);
  same(feature::model, refusal_code::model, true);
  same(feature::data, refusal_code::data, true);
  same(feature::devices, refusal_code::devices, true);
  if (!wires.empty()) all.push_back({std::string(feature::wire), wires, refusal_code::wire});
  return all;
}

} // namespace mailgrad::net
