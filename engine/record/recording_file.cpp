#include <mailgrad/engine/record/recording_file.hpp>

#include <mailgrad/files/text_in_json.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

namespace mailgrad {

namespace recording_file {

namespace {

// Facts and words come back byte for byte: a replay compares the ones, and opens files by the others.

json texts_in_json(const std::vector<std::string>& texts) {
  json j = json::array();
  for (const std::string& text : texts) j.push_back(text_in_json(text));
  return j;
}

std::string text_from(const json& j) { return bytes_of_text_in_json(j.get<std::string>()); }

std::vector<std::string> texts_from(const json& j) {
  std::vector<std::string> texts;
  for (const std::string& text : j.get<std::vector<std::string>>())
    texts.push_back(bytes_of_text_in_json(text));
  return texts;
}

} // namespace

unsigned long crc(unsigned long before, std::string_view bytes) {
  return crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

void refuse(const std::string& name, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' {}", name, why));
}

std::string text_of(const recording_header& h) {
  json facts = json::object();
  for (const auto& [fact, value] : h.facts) facts[text_in_json(fact)] = text_in_json(value);
  json all{{"workers", h.workers}, {"shards", h.shards}, {"facts", facts}, {"words", texts_in_json(h.words)}};
  if (h.seats > h.workers) all["seats"] = h.seats;
  return all.dump();
}

recording_header header_from(const json& j) {
  recording_header h;
  h.workers = j.at("workers").get<std::uint32_t>();
  h.shards = j.at("shards").get<std::uint32_t>();
  if (j.contains("seats")) h.seats = j.at("seats").get<std::uint32_t>();
  for (const auto& [fact, value] : j.at("facts").items())
    h.facts.emplace_back(bytes_of_text_in_json(fact), text_from(value));
  h.words = texts_from(j.at("words"));
  return h;
}

std::string text_of(const recorded_switch& s) {
  return json{{"policy", text_in_json(s.policy)},
              {"why", text_in_json(s.why)},
              {"batches", s.batches},
              {"present", s.present}}
      .dump();
}

recorded_switch switch_from(const json& j) {
  return {text_from(j.at("policy")), text_from(j.at("why")),
          j.at("batches").get<std::vector<std::uint64_t>>(),
          j.at("present").get<std::vector<std::uint8_t>>()};
}

std::string text_of(const recording_end& e) {
  return json{{"ended", text_in_json(e.ended)},
              {"why", text_in_json(e.why)},
              {"lost", e.lost},
              {"parameters_sha256", text_in_json(e.parameters_sha256)}}
      .dump();
}

recording_end end_from(const json& j) {
  recording_end e;
  e.ended = text_from(j.at("ended"));
  e.why = text_from(j.at("why"));
  e.lost = j.at("lost").get<std::vector<std::uint32_t>>();
  e.parameters_sha256 = text_from(j.at("parameters_sha256"));
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
