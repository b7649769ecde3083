#include <mailgrad/tests/data/scratch_files.hpp>

#include <mailgrad/actors/little_endian.hpp>
#include <mailgrad/actors/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <sstream>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using kind = shard_turn::kind;

constexpr std::int64_t late = std::numeric_limits<std::int64_t>::max();

recording_header small_header() {
  return {2, 2, {{"batch", "4"}, {"policy", "async"}}, {"--batch=4", "--policy=async"}};
}

/// Worker 0 makes one step, worker 1 two; both shards take them, each in an order of its own.
std::vector<std::vector<shard_turn>> small_turns() {
  return {{{kind::joined, {0}},
           {kind::joined, {1}},
           {kind::gradient, {1}, 1, 0, 7},
           {kind::gradient, {0}, 1, 0, late},
           {kind::switched, {}},
           {kind::gradient, {1}, 2, 0, -9},
           {kind::left, {0}},
           {kind::left, {1}}},
          {{kind::joined, {1}},
           {kind::joined, {0}},
           {kind::gradient, {0}, 1, 0, 5},
           {kind::gradient, {1}, 1, 0, 6},
           {kind::switched, {}},
           {kind::gradient, {1}, 2, 0, 8},
           {kind::left, {1}},
           {kind::left, {0}}}};
}

recording_end small_end() {
  return {"completed", "", {}, {{"sync", "planned for step 2", {1, 1}, {1, 1}}}, std::string(64, 'a')};
}

constexpr recorded_deal small_deals[] = {{{0}, 0}, {{1}, 1}, {{1}, (1ULL << 48) - 1}};

/// What a writer writes; `end` may be left out.
std::string written(const recording_header& header, const std::vector<std::vector<shard_turn>>& turns,
                    const std::optional<recording_end>& end) {
  std::stringbuf bytes;
  recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", header);
  for (std::uint32_t s = 0; s < turns.size(); ++s) writer.add_turns(s, turns[s]);
  writer.add_deals(small_deals);
  if (end) writer.end(*end);
  return bytes.str();
}

std::string small_recording() { return written(small_header(), small_turns(), small_end()); }

/// Why `bytes` are refused; empty if they are not. Anything but a recording_error is let through.
std::string refusal(const std::string& bytes) {
  try {
    require_repeatable(parse_recording(bytes, "x.rec"));
  } catch (const recording_error& e) {
    return e.what();
  }
  return "";
}

TEST(Recording, HoldsWhatWasWritten) {
  const recording r = parse_recording(small_recording(), "x.rec");
  EXPECT_EQ(r.name, "x.rec");
  EXPECT_EQ(r.header.workers, 2U);
  EXPECT_EQ(r.header.facts, small_header().facts);
  EXPECT_EQ(r.header.words, small_header().words);
  ASSERT_EQ(r.turns.size(), 2U);
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_EQ(r.turns[s].size(), small_turns()[s].size());
    for (std::size_t i = 0; i < r.turns[s].size(); ++i) {
      const shard_turn expected = small_turns()[s][i];
      EXPECT_EQ(r.turns[s][i].what, expected.what);
      EXPECT_EQ(r.turns[s][i].worker, expected.worker);
      EXPECT_EQ(r.turns[s][i].step, expected.step);
      EXPECT_EQ(r.turns[s][i].arrived, expected.arrived);
    }
  }
  EXPECT_EQ(r.batches, (std::vector<std::vector<std::uint64_t>>{{0}, {1, (1ULL << 48) - 1}}));
  EXPECT_EQ(r.end.ended, "completed");
  EXPECT_EQ(r.end.switches, small_end().switches);
  EXPECT_EQ(r.end.parameters_sha256, small_end().parameters_sha256);
  EXPECT_EQ(refusal(small_recording()), "");
}

TEST(Recording, TakesAtMostThirtyTwoBytesAnUpdate) {
  constexpr std::size_t updates = 10'000;
  constexpr std::size_t at_once = 1024;
  for (const std::uint32_t shards : {1U, 2U, 7U}) {
    std::stringbuf bytes;
    recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", {3, shards, {}, {}});
    const std::size_t before = bytes.view().size();
    for (std::size_t i = 0; i < updates; i += at_once) {
      for (std::uint32_t s = 0; s < shards; ++s)
        writer.add_turns(s, std::vector<shard_turn>(at_once, {kind::gradient, {2}, i + 1, 0, late}));
      writer.add_deals(std::vector<recorded_deal>(at_once, {{2}, i}));
    }
    EXPECT_LE(bytes.view().size() - before, 32 * shards * updates) << shards << " shards";
  }
}

TEST(Recording, IsRefusedIfItIsCutAnywhere) {
  const std::string whole = small_recording();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(refusal(whole.substr(0, length)),
                AllOf(HasSubstr("'x.rec'"), Not(HasSubstr("\n")),
                      ::testing::AnyOf(HasSubstr("cut short"), HasSubstr("no recording"))))
        << length;
}

TEST(Recording, IsRefusedIfAnyByteIsAnother) {
  const std::string whole = small_recording();
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_THAT(refusal(damaged), AllOf(HasSubstr("'x.rec'"), Not(HasSubstr("\n")))) << i;
    }
}

TEST(Recording, IsRefusedIfSomethingFollows) {
  EXPECT_THAT(refusal(small_recording() + "x"), HasSubstr("cut short"));
  EXPECT_THAT(refusal(small_recording() + small_recording()), HasSubstr("checksum"));
}

TEST(Recording, SaysWhatWasExpectedAndFound) {
  EXPECT_THAT(refusal("{\"policy\": \"async\"}"), HasSubstr("does not begin with 'mgradrec'"));
  EXPECT_THAT(refusal(""), HasSubstr("does not begin with 'mgradrec'"));
  std::string newer = small_recording();
  newer[8] = 2;
  EXPECT_THAT(refusal(newer), HasSubstr("has format 2; this version reads format 1"));
  EXPECT_THAT(refusal(written(small_header(), small_turns(), std::nullopt)), HasSubstr("is cut short"));
}

/// Nobody would write these, but a checksum does not keep anybody from it.
TEST(Recording, IsRefusedIfItsPartsDoNotFitTogether) {
  const auto with_turns = [](const std::function<void(std::vector<std::vector<shard_turn>>&)>& change) {
    auto turns = small_turns();
    change(turns);
    return refusal(written(small_header(), turns, small_end()));
  };
  EXPECT_THAT(with_turns([](auto& t) { t[1].erase(t[1].begin() + 5); }),
              HasSubstr("other gradients on shard 1"));
  EXPECT_THAT(with_turns([](auto& t) { t[0].erase(t[0].begin()); }),
              HasSubstr("worker 0 on shard 0 out of order"));
  EXPECT_THAT(with_turns([](auto& t) { t[0].erase(t[0].begin() + 4); }),
              HasSubstr("has 1 switches; shard 0 made 0"));
  EXPECT_THAT(with_turns([](auto& t) {
                t[0].push_back({kind::gradient, {1}, 3});
              }),
              HasSubstr("out of order"));
  EXPECT_THAT(with_turns([](auto& t) {
                t[0].insert(t[0].begin() + 4, {kind::gradient, {0}, 2});
              }),
              HasSubstr("than the 1 batches it was dealt"));
  EXPECT_THAT(with_turns([](auto& t) { t[0][0].worker = {2}; }), HasSubstr("names worker 2 of 2"));
  EXPECT_THAT(with_turns([](auto& t) { t.push_back({{kind::left, {0}}}); }), HasSubstr("names shard 2 of 2"));
  EXPECT_THAT(with_turns([](auto& t) { t[0][0].what = static_cast<kind>(9); }), HasSubstr("turn of kind 9"));

  const auto with_end = [](const std::function<void(recording_end&)>& change) {
    recording_end end = small_end();
    change(end);
    return refusal(written(small_header(), small_turns(), end));
  };
  EXPECT_THAT(with_end([](auto& e) { e.switches[0].batches = {1}; }), HasSubstr("without its workers"));
  EXPECT_THAT(with_end([](auto& e) { e.switches[0].policy = "snyc"; }),
              AllOf(HasSubstr("has a switch that cannot be"), HasSubstr("did you mean 'sync'")));
  EXPECT_THAT(with_end([](auto& e) { e.switches[0].policy = "backup:2"; }), HasSubstr("can be at most 1"));
  EXPECT_THAT(with_end([](auto& e) { e.switches[0].policy = "hogwild"; }),
              HasSubstr("has a switch that cannot be"));
  EXPECT_THAT(with_end([](auto& e) { e.switches[0].present = {0, 0}; }), HasSubstr("without its workers"));
  EXPECT_THAT(with_end([](auto& e) {
                e.switches[0].batches = {2, 1};
              }),
              HasSubstr("after batch 2; expected 0 to 1"));
}

TEST(Recording, IsRefusedIfALengthPromisesMoreThanThereIs) {
  std::string bytes = small_recording();
  const std::string tail = bytes.substr(bytes.size() - 8);
  bytes.resize(bytes.size() - 12);
  const std::size_t first_part = 16 + number_in<4>(std::string_view(bytes).substr(12));
  for (const std::size_t at : {std::size_t{12}, first_part + 4}) {
    std::string longer = bytes;
    longer.replace(at, 4, "\xff\xff\xff\xff");
    append_number<4>(longer, crc32_z(0, reinterpret_cast<const Bytef*>(longer.data()), longer.size()));
    EXPECT_THAT(refusal(longer + tail), HasSubstr("is damaged: expected")) << at;
  }
}

TEST(Recording, TellsWhyARunCannotBeRepeated) {
  recording_end lost = small_end();
  lost.lost = {1};
  EXPECT_THAT(refusal(written(small_header(), small_turns(), lost)), HasSubstr("lost worker 1"));
  recording_end failed = small_end();
  failed.ended = "failed";
  failed.why = "shard 0 is lost";
  EXPECT_THAT(refusal(written(small_header(), small_turns(), failed)), HasSubstr("failed (shard 0 is lost)"));
}

TEST(Recording, KeepsTextsThatAreNoUnicode) {
  recording_header header = small_header();
  header.words = {"--data=\xff\xfe"};
  EXPECT_EQ(refusal(written(header, small_turns(), small_end())), "");
}

TEST(Recording, GoesThroughAFile) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  const auto writer = create_recording(path, small_header());
  for (std::uint32_t s = 0; s < 2; ++s) writer->add_turns(s, small_turns()[s]);
  writer->add_deals(small_deals);
  writer->end(small_end());
  EXPECT_EQ(read_recording(path).end.parameters_sha256, small_end().parameters_sha256);
}

TEST(Recording, IsRefusedByItsFirstWordsHoweverMuchFollows) {
  EXPECT_THROW(read_recording("/dev/zero"), recording_error) << "to read all of it takes for ever";
}

TEST(Recording, SaysSoIfAFileCannotBeReadOrWritten) {
  EXPECT_THROW(read_recording("/no/such/file"), std::system_error);
  EXPECT_THROW(read_recording("/"), std::exception);
  EXPECT_THROW(create_recording("/no/such/folder/run.rec", small_header()), std::system_error);
  const auto full = create_recording("/dev/full", small_header());
  full->add_turns(0, std::vector<shard_turn>(100'000));
  try {
    full->end(small_end());
    FAIL() << "nothing can have been written";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("/dev/full"), HasSubstr("cannot be written: No space left")));
  }
}

} // namespace
} // namespace mailgrad
