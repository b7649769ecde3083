#include <mailgrad/engine/record/recording_file.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

namespace mailgrad {

namespace recording_file {

namespace {
std::string dumped(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }
} // namespace

unsigned long crc(unsigned long before, std::string_view bytes) {
  return crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

void refuse(const std::string& name, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' {}", name, why));
}

std::string text_of(const recording_header& h) {
  json facts = json::object();
  for (const auto& [fact, value] : h.facts) facts[fact] = value;
  return dumped({{"workers", h.workers}, {"shards", h.shards}, {"facts", facts}, {"words", h.words}});
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

std::string text_of(const recorded_switch& s) {
  return dumped({{"policy", s.policy}, {"why", s.why}, {"batches", s.batches}, {"present", s.present}});
}

recorded_switch switch_from(const json& j) {
  return {j.at("policy").get<std::string>(), j.at("why").get<std::string>(),
          j.at("batches").get<std::vector<std::uint64_t>>(),
          j.at("present").get<std::vector<std::uint8_t>>()};
}

std::string text_of(const recording_end& e) {
  return dumped(
      {{"ended", e.ended}, {"why", e.why}, {"lost", e.lost}, {"parameters_sha256", e.parameters_sha256}});
}

recording_end end_from(const json& j) {
  recording_end e;
  e.ended = j.at("ended").get<std::string>();
  e.why = j.at("why").get<std::string>();
  e.lost = j.at("lost").get<std::vector<std::uint32_t>>();
  e.parameters_sha256 = j.at("parameters_sha256").get<std::string>();
  return e;
}

} // namespace recording_file

namespace {

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace

recording_error::recording_error(const std::string& what) : std::invalid_argument(in_one_line(what)) {}

} // namespace mailgrad
