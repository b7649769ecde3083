#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/files/text.hpp>

#include <fmt/format.h>
#include <zlib.h>

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
  if (h.slots > h.workers) all["seats"] = h.slots;
  return all.dump();
}

recording_header header_from(const json& j) {
  recording_header h;
  h.workers = j.at("workers").get<std::uint32_t>();
  h.shards = j.at("shards").get<std::uint32_t>();
  if (j.contains("seats")) h.slots = j.at("seats").get<std::uint32_t>();
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

recording_end end_from(const json& j, std::vector<recorded_switch> switches) {
  recording_end e;
  e.switches = std::move(switches);
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

namespace {

using kind = order_entry::kind;

/// The checksum of the entries before, whose checksum is `before`, and of this one.
std::uint32_t checksum_with(std::uint32_t before, const order_entry& t) {
  std::string bytes;
  append_number<4>(bytes, before);
  append_number<1>(bytes, static_cast<std::uint64_t>(t.what));
  append_number<4>(bytes, t.worker.value);
  append_number<8>(bytes, t.step.value);
  append_number<8>(bytes, static_cast<std::uint64_t>(t.arrived));
  return crc32c(bytes);
}

void require_entries(const recording& r, const recording_cut& at, std::size_t shard) {
  if (r.entries[shard].size() < at.entries[shard])
    recording_file::refuse(r.name,
                           fmt::format("ends before the checkpoint: it has {} of {} turns of shard {}",
                                       r.entries[shard].size(), at.entries[shard], shard));
  recording_cut found(static_cast<std::uint32_t>(at.entries.size()));
  const std::span<const order_entry> entries = std::span(r.entries[shard]).first(at.entries[shard]);
  found.add(static_cast<std::uint32_t>(shard), entries);
  if (found.checksums[shard] != at.checksums[shard])
    recording_file::refuse(r.name, "is of another run than the checkpoint");
  const auto left = std::ranges::find(entries, kind::left, &order_entry::what);
  if (left != entries.end())
    recording_file::refuse(r.name, fmt::format("cannot go on: worker {} had left before the checkpoint, and "
                                               "would join again",
                                               left->worker.value));
}

} // namespace

void recording_cut::add(std::uint32_t shard, std::span<const order_entry> more) {
  if (shard >= entries.size()) return; // of a process that is not as it should be
  entries[shard] += more.size();
  for (const order_entry& t : more) checksums[shard] = checksum_with(checksums[shard], t);
}

void recording_cut::keep(archive& a) {
  a.version(1);
  a.fields({"file", "failed", "turns", "checksums"}, file, failed, entries, checksums);
  if (a.reads() && entries.size() != checksums.size())
    throw archive_error("recording: expected as many checksums as shards");
}

recording part_before(const recording& r, const recording_cut& at, std::span<const std::uint64_t> trained,
                      std::size_t switches) {
  if (at.failed) recording_file::refuse(r.name, "could not be written before the checkpoint");
  if (r.entries.size() != at.entries.size() || r.batches.size() != trained.size())
    recording_file::refuse(
        r.name, fmt::format("is of {} workers and {} shards; the checkpoint is of {} and {}",
                            r.batches.size(), r.entries.size(), trained.size(), at.entries.size()));
  if (std::ranges::any_of(r.incarnations, [](const auto& incarnations) { return !incarnations.empty(); }))
    recording_file::refuse(r.name, "cannot go on: workers had come or gone");
  recording before = r;
  before.killed = false;
  before.end = {};
  for (std::size_t s = 0; s < r.entries.size(); ++s) {
    require_entries(r, at, s);
    before.entries[s].resize(at.entries[s]);
  }
  for (std::size_t w = 0; w < trained.size(); ++w) {
    if (r.batches[w].size() < trained[w])
      recording_file::refuse(r.name,
                             fmt::format("ends before the checkpoint: it has {} of {} batches of worker {}",
                                         r.batches[w].size(), trained[w], w));
    before.batches[w].resize(trained[w]);
  }
  if (r.end.switches.size() < switches)
    recording_file::refuse(r.name, fmt::format("ends before the checkpoint: it has {} of {} switches",
                                               r.end.switches.size(), switches));
  before.end.switches.assign(r.end.switches.begin(),
                             r.end.switches.begin() + static_cast<std::ptrdiff_t>(switches));
  return before;
}

void write_again(recording_writer& to, const recording& what) {
  for (std::uint32_t s = 0; s < what.entries.size(); ++s) to.add_entries(s, what.entries[s]);
  for (std::uint32_t w = 0; w < what.batches.size(); ++w) {
    std::vector<recorded_deal> deals;
    for (const std::uint64_t number : what.batches[w]) deals.push_back({{w}, number});
    to.add_deals(deals);
  }
  for (const recorded_switch& s : what.end.switches) to.add_switch(s);
}

} // namespace mailgrad
