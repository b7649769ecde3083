#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

namespace mailgrad {
namespace {

using namespace ::testing;
using kind = order_entry::kind;

constexpr std::int64_t late = std::int64_t{1} << 62;

recording_header small_header() {
  return {2, 2, {{"batch", "4"}, {"policy", "async"}}, {"--batch=4", "--policy=async"}};
}

order_entry joining(std::uint32_t worker) { return {kind::joined, {worker}}; }
order_entry leaving(std::uint32_t worker) { return {kind::left, {worker}}; }
order_entry step_of(std::uint32_t worker, std::uint64_t step, std::int64_t arrived = 0) {
  return {kind::gradient, {worker}, {step}, {}, arrived};
}
const order_entry switching{kind::switched, {}};

/// Worker 0 makes one step, worker 1 two; both shards take them, each in an order of its own.
std::vector<std::vector<order_entry>> small_entries() {
  return {{joining(0), joining(1), step_of(1, 1, 7), step_of(0, 1, late), switching, step_of(1, 2, 9),
           leaving(0), leaving(1)},
          {joining(1), joining(0), step_of(0, 1, 5), step_of(1, 1, 6), switching, step_of(1, 2, 8),
           leaving(1), leaving(0)}};
}

recording_end small_end() {
  return {"completed", "", {}, {{"sync", "planned for step 2", {1, 1}, {1, 1}}}, std::string(64, 'a')};
}

constexpr recorded_deal small_deals[] = {{{0}, 0}, {{1}, 1}, {{1}, (1ULL << 48) - 1}};

/// What a writer writes; `end` may be left out.
std::string written(const recording_header& header, const std::vector<std::vector<order_entry>>& entries,
                    const std::optional<recording_end>& end) {
  std::stringbuf bytes;
  recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", header);
  if (end)
    for (const recorded_switch& s : end->switches) writer.add_switch(s);
  for (std::uint32_t s = 0; s < entries.size(); ++s) writer.add_entries(s, entries[s]);
  writer.add_deals(small_deals);
  if (end) writer.end(*end);
  return bytes.str();
}

std::string small_recording() { return written(small_header(), small_entries(), small_end()); }

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
  EXPECT_EQ(r.entries, small_entries());
  EXPECT_EQ(r.batches, (std::vector<std::vector<std::uint64_t>>{{0}, {1, (1ULL << 48) - 1}}));
  EXPECT_EQ(r.end.ended, "completed");
  EXPECT_EQ(r.end.switches, small_end().switches);
  EXPECT_EQ(r.end.parameters_sha256, small_end().parameters_sha256);
  EXPECT_EQ(refusal(small_recording()), "");
}

TEST(Recording, BeginsAgainWhenItsRunHasLearnedMoreOfItself) {
  const auto bytes_of = [](bool again) {
    std::stringbuf bytes;
    recording_header first = small_header(), whole = small_header();
    whole.facts.emplace_back("arithmetic of workers", "a card, the host");
    recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", again ? first : whole);
    if (again) writer.begin_again(whole);
    writer.add_entries(0, small_entries()[0]);
    writer.add_entries(1, small_entries()[1]);
    writer.end(small_end());
    return bytes.str();
  };
  EXPECT_EQ(bytes_of(true), bytes_of(false));
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
        writer.add_entries(s, std::vector<order_entry>(at_once, {kind::gradient, {2}, i + 1, 0, late}));
      writer.add_deals(std::vector<recorded_deal>(at_once, {{2}, i}));
    }
    EXPECT_LE(bytes.view().size() - before, 32 * shards * updates) << shards << " shards";
  }
}

TEST(Recording, IsRefusedIfItIsCutAnywhereOrAnyByteIsAnother) {
  const std::string whole = small_recording();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_THAT(refusal(whole.substr(0, i)), AllOf(HasSubstr("'x.rec'"), Not(HasSubstr("\n")),
                                                   AnyOf(HasSubstr("cut short"), HasSubstr("no recording"))))
        << i;
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_THAT(refusal(damaged), AllOf(HasSubstr("'x.rec'"), Not(HasSubstr("\n")))) << i;
    }
  }
}

TEST(Recording, SaysWhatWasExpectedAndFound) {
  std::string newer = small_recording();
  newer[8] = 3;
  recording_end failed = small_end();
  failed.ended = "failed";
  failed.why = "shard 0 is lost";
  const std::pair<std::string, const char*> refused[] = {
      {"{\"policy\": \"async\"}", "does not begin with 'mgradrec'"},
      {"", "does not begin with 'mgradrec'"},
      {newer, "has format 3; this version reads format 2"},
      {written(small_header(), small_entries(), std::nullopt), "is cut short"},
      {written(small_header(), small_entries(), failed), "failed (shard 0 is lost)"},
      {small_recording() + "x", "cut short"},
      {small_recording() + "x", "has more behind its end"},
      {small_recording() + small_recording(), "checksum"}};
  for (const auto& [bytes, why] : refused) EXPECT_THAT(refusal(bytes), HasSubstr(why));
}

/// Nobody would write these, but a checksum does not keep anybody from it.
TEST(Recording, IsRefusedIfItsPartsDoNotFitTogether) {
  using entries_of_shards = std::vector<std::vector<order_entry>>;
  const auto with_entries = [](const std::function<void(entries_of_shards&)>& change) {
    auto entries = small_entries();
    change(entries);
    return refusal(written(small_header(), entries, small_end()));
  };
  const std::pair<void (*)(entries_of_shards&), const char*> wrong[] = {
      {[](auto& t) { t[1].erase(t[1].begin() + 5); }, "other gradients on shard 1"},
      {[](auto& t) { t[0].erase(t[0].begin()); },
       "worker 0 out of order: turn 3 of shard 0 comes before it joins"},
      {[](auto& t) { t[0].insert(t[0].begin() + 1, joining(0)); }, "turn 2 of shard 0 joins again"},
      {[](auto& t) { t[0].front().step = {3}; }, "worker 0 never joins shard 1"},
      {[](auto& t) { t[0].erase(t[0].begin() + 4); }, "has 1 switches; shard 0 made 0"},
      {[](auto& t) { t[0].push_back(step_of(1, 3)); }, "out of order"},
      {[](auto& t) { t[0].insert(t[0].begin() + 4, step_of(0, 2)); },
       "of worker 0 up to step 1, there up to 2"},
      {[](auto& t) { t[0][0].worker = {2}; }, "names worker 2 of 2"},
      {[](auto& t) { t.emplace_back(1, leaving(0)); }, "names shard 2 of 2"},
      {[](auto& t) { t[0][0].what = static_cast<kind>(9); }, "turn of kind 9"},
      {[](auto& t) { t[0][0].arrived = -1; }, "holds a turn at"},
      {[](auto& t) { t[0][0].arrived = std::numeric_limits<std::int64_t>::max(); }, "holds a turn at"}};
  for (const auto& [change, why] : wrong) EXPECT_THAT(with_entries(change), HasSubstr(why));
  EXPECT_EQ(with_entries([](auto& t) {
              for (auto& entries : t) entries.insert(entries.begin() + 2, {kind::closed, {}, {}, {}, 5});
            }),
            "");

  const auto with_switch = [](const std::string& policy, const std::vector<std::uint64_t>& batches,
                              const std::vector<std::uint8_t>& present) {
    recording_end end = small_end();
    end.switches = {{policy, "planned for step 2", batches, present}};
    return refusal(written(small_header(), small_entries(), end));
  };
  EXPECT_THAT(with_switch("sync", {1}, {1, 1}), HasSubstr("without its workers"));
  EXPECT_THAT(with_switch("snyc", {1, 1}, {1, 1}),
              AllOf(HasSubstr("has a switch that cannot be"), HasSubstr("did you mean 'sync'")));
  EXPECT_THAT(with_switch("backup:2", {1, 1}, {1, 1}), HasSubstr("can be at most 1"));
  EXPECT_THAT(with_switch("hogwild", {1, 1}, {1, 1}), HasSubstr("has a switch that cannot be"));
  EXPECT_THAT(with_switch("sync", {1, 1}, {0, 0}), HasSubstr("without its workers"));
  EXPECT_THAT(with_switch("sync", {2, 1}, {1, 1}),
              HasSubstr("switches worker 0 after batch 2; expected 0 to 1"));
  EXPECT_THAT(with_switch("sync", {1, 3}, {1, 1}),
              HasSubstr("switches worker 1 after batch 3; expected 0 to 2"));
}

TEST(Recording, IsRefusedWithoutWorkersOrShardsOrWithMoreThanItNumbers) {
  const auto with = [](std::uint32_t workers, std::uint32_t shards) {
    recording_header header = small_header();
    header.workers = workers;
    header.shards = shards;
    return refusal(written(header, {}, small_end()));
  };
  EXPECT_THAT(with(0, 2), HasSubstr("is of 0 workers and 2 shards; expected 1 to 65536 of each"));
  EXPECT_THAT(with(2, 0), HasSubstr("is of 2 workers and 0 shards"));
  EXPECT_THAT(with(65537, 2), HasSubstr("is of 65537 workers"));
  EXPECT_THAT(with(2, 65537), HasSubstr("and 65537 shards"));
  EXPECT_NO_THROW(create_recording("/dev/null", {65536, 65536, {}, {}}));
  EXPECT_THROW(create_recording("/dev/null", {2, 65537, {}, {}}), recording_error);
}

TEST(Recording, IsRefusedWithThePlaceOfAGapOrARepeat) {
  const auto with_steps = [](std::uint64_t first, std::uint64_t second) {
    auto entries = small_entries();
    for (auto& of_shard : entries)
      for (order_entry& t : of_shard)
        if (t.what == kind::gradient && t.worker == rank{1}) t.step = {t.step.value == 1 ? first : second};
    return refusal(written(small_header(), entries, small_end()));
  };
  EXPECT_EQ(with_steps(1, 2), "");
  EXPECT_THAT(with_steps(1, 3),
              HasSubstr("worker 1 out of order: turn 6 of shard 0 has step 3; expected step 2"));
  EXPECT_THAT(with_steps(1, 1), HasSubstr("turn 6 of shard 0 has step 1; expected step 2"));
  EXPECT_THAT(with_steps(2, 3), HasSubstr("turn 3 of shard 0 has step 2; expected step 1"));
  EXPECT_THAT(with_steps(0, 1), HasSubstr("turn 3 of shard 0 has step 0; expected step 1"));

  const auto without = [](std::initializer_list<kind> what) {
    auto entries = small_entries();
    for (auto& of_shard : entries)
      std::erase_if(of_shard, [&](const order_entry& t) {
        return t.worker == rank{0} && std::ranges::find(what, t.what) != what.end();
      });
    return refusal(written(small_header(), entries, small_end()));
  };
  EXPECT_THAT(without({kind::joined, kind::gradient}),
              HasSubstr("worker 0 out of order: turn 5 of shard 0 comes before it joins"));
  EXPECT_THAT(without({kind::left}), HasSubstr("worker 0 never leaves shard 0"));
}

/// Its steps would begin anew, and a shard would take them for those of before.
TEST(Recording, IsRefusedIfAnIncarnationComesBackAsItself) {
  const auto back_as = [](std::uint32_t incarnation) {
    auto entries = small_entries();
    for (auto& of_shard : entries) {
      of_shard.push_back(order_entry::of(kind::joined, {0}, {incarnation}));
      of_shard.push_back(order_entry::of(kind::left, {0}, {incarnation}));
    }
    return refusal(written(small_header(), entries, small_end()));
  };
  EXPECT_EQ(back_as(1), "");
  EXPECT_THAT(back_as(0), HasSubstr("worker 0 out of order"));
  EXPECT_THAT(back_as(0), HasSubstr("joins again"));
}

TEST(Recording, IsRefusedIfABatchWasDealtTwice) {
  recording r = parse_recording(small_recording(), "x.rec");
  require_repeatable(r);
  r.batches[1].back() = 0;
  EXPECT_THAT([&] { require_repeatable(r); },
              ThrowsMessage<recording_error>(HasSubstr("deals batch 0 twice: to worker 0 and to worker 1")));
}

TEST(Recording, OfAKilledRunHoldsThePartsThatAreWhole) {
  const std::string bytes = written(small_header(), small_entries(), std::nullopt);
  const std::size_t header = 20 + number_in<4>(std::string_view(bytes).substr(12));
  std::size_t held_before = 0;
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const std::string left = bytes.substr(0, length);
    if (length < header) {
      EXPECT_THROW(parse_killed_recording(left, "x.rec"), recording_error) << length;
      continue;
    }
    const recording r = parse_killed_recording(left, "x.rec");
    EXPECT_TRUE(r.killed);
    const std::size_t held =
        r.entries[0].size() + r.entries[1].size() + r.batches[0].size() + r.batches[1].size();
    EXPECT_GE(held, held_before);
    held_before = held;
  }
  EXPECT_EQ(held_before, 8U + 8U + 3U);
}

TEST(Recording, OfAKilledRunEndsBeforeAPartThatIsDamaged) {
  const std::string whole = written(small_header(), small_entries(), std::nullopt);
  const std::size_t header = 20 + number_in<4>(std::string_view(whole).substr(12));
  const std::size_t first_part = 8 + 8 * 16 + 4;
  for (std::size_t i = header; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    const recording r = parse_killed_recording(damaged, "x.rec");
    EXPECT_EQ(r.entries[0].size(), i < header + first_part ? 0U : 8U) << i;
    EXPECT_TRUE(r.batches[1].empty() || i >= whole.size() - 4 - 24 - 8) << i;
  }
}

TEST(Recording, IsRefusedIfALengthPromisesMoreThanThereIs) {
  std::string bytes = small_recording();
  const std::string tail = bytes.substr(bytes.size() - 8);
  bytes.resize(bytes.size() - 12);
  const std::size_t first_part = 20 + number_in<4>(std::string_view(bytes).substr(12));
  for (const std::size_t at : {std::size_t{12}, first_part + 4}) {
    std::string longer = bytes;
    longer.replace(at, 4, "\xff\xff\xff\xff");
    append_number<4>(longer, crc32_z(0, reinterpret_cast<const Bytef*>(longer.data()), longer.size()));
    EXPECT_THAT(refusal(longer + tail), HasSubstr("is damaged: expected")) << at;
  }
}

/// Bytes of a run of two workers, whose feeder has done this.
std::string with_deals(const std::vector<recorded_deal>& deals, recording_header header = small_header()) {
  std::stringbuf bytes;
  recording_writer writer(std::make_unique<std::ostream>(&bytes), "memory", header);
  writer.add_deals(deals);
  writer.end({"completed", "", {}, {}, ""});
  return bytes.str();
}

TEST(Recording, KnowsWhichIncarnationTrainedWhat) {
  using what = recorded_deal::kind;
  recording_header header = small_header();
  header.slots = 3;
  const recording r = parse_recording(with_deals({{{0}, 0},
                                                  {{1}, 1},
                                                  {{0}, 2},
                                                  {{0}, 3},
                                                  {{0}, 2, what::returned}, // it was lost
                                                  {{0}, 3, what::returned},
                                                  {{1}, 2},
                                                  {{0}, 2, what::begun},
                                                  {{0}, 3},
                                                  {{2}, 0, what::begun},
                                                  {{2}, 4}},
                                                 header),
                                      "x.rec");
  EXPECT_EQ(r.header.slots, 3U);
  EXPECT_EQ(r.batches, (std::vector<std::vector<std::uint64_t>>{{0, 3}, {1, 2}, {4}}));
  EXPECT_EQ(r.incarnations[0], (std::vector<dealt_incarnation>{{{0}, 0, true}, {{2}, 1, false}}));
  EXPECT_TRUE(r.incarnations[1].empty());
  EXPECT_EQ(r.incarnations[2], (std::vector<dealt_incarnation>{{{0}, 0, false}}));
}

TEST(Recording, RefusesIncarnationsAndReturnsThatCannotBe) {
  using what = recorded_deal::kind;
  EXPECT_THAT(refusal(with_deals({{{0}, 0}, {{1}, 0, what::returned}})),
              HasSubstr("takes batch 0 back from worker 1, which it was not dealt"));
  EXPECT_THAT(refusal(with_deals({{{0}, 2, what::begun}, {{0}, 1, what::begun}})),
              HasSubstr("lets worker 0 begin as incarnation 1 after 2"));
  EXPECT_THAT(refusal(with_deals({{{0}, 1ULL << 40, what::begun}})),
              HasSubstr("lets worker 0 begin as incarnation 1099511627776; expected at most 4294967295"));
  EXPECT_THAT(refusal(with_deals({{{2}, 0}})), HasSubstr("names worker 2 of 2"));
}

TEST(Recording, KeepsTextsThatAreNoUnicode) {
  recording_header header = small_header();
  header.facts.emplace_back("SHA-256 of plug-in '\xe9.so'", "ab\xff");
  header.words = {"--data=\xff\xfe"};
  recording_end end = small_end();
  end.switches[0].why = "asked for by \xe9";
  end.why = "\xe9";
  const std::string bytes = written(header, small_entries(), end);
  EXPECT_EQ(refusal(bytes), "");
  const recording r = parse_recording(bytes, "x.rec");
  EXPECT_THAT(r.header.facts, UnorderedElementsAreArray(header.facts));
  EXPECT_EQ(r.header.words, header.words);
  EXPECT_EQ(r.end.switches, end.switches);
  EXPECT_EQ(r.end.why, end.why);
}

class RecordingFiles : public ::testing::Test {
protected:
  /// What a killed run left but for its last bytes.
  void leave_killed(std::size_t missing) const {
    const std::string bytes = written(small_header(), small_entries(), std::nullopt);
    folder_.write("run.rec.partial", bytes.substr(0, bytes.size() - missing));
  }

  const scratch_folder folder_;
  const std::string path_ = (folder_.path() / "run.rec").string();
  const std::string partial_ = path_ + ".partial", killed_ = path_ + ".killed";
};

TEST_F(RecordingFiles, GoesThroughAFile) {
  const auto writer = create_recording(path_, small_header());
  writer->add_switch(small_end().switches[0]);
  for (std::uint32_t s = 0; s < 2; ++s) writer->add_entries(s, small_entries()[s]);
  writer->add_deals(small_deals);
  writer->end(small_end());
  EXPECT_EQ(read_recording(path_).end.parameters_sha256, small_end().parameters_sha256);
}

TEST_F(RecordingFiles, IsWrittenByOneRunAtATime) {
  const auto first = create_recording(path_, small_header());
  EXPECT_THAT([&] { create_recording(path_, small_header()); },
              ThrowsMessage<recording_error>(
                  AllOf(HasSubstr(path_), HasSubstr("another run is recording into it (process "))));
  EXPECT_THROW(read_recording(partial_), recording_error) << "it is being written";
  first->add_entries(0, small_entries()[0]);
  first->end({"completed", "", {}, {}, ""});
  EXPECT_EQ(read_recording(path_).entries[0].size(), 8U);
}

TEST_F(RecordingFiles, OfAKilledRunIsReadByItsName) {
  leave_killed(1);
  EXPECT_EQ(read_recording(partial_).entries[0].size(), 8U);
  EXPECT_THAT([&] { read_recording(path_); }, ThrowsMessage<std::system_error>(HasSubstr("run.rec.partial'")))
      << "it is not there";
  folder_.write("run.rec.partial", small_recording());
  EXPECT_FALSE(read_recording(partial_).killed) << "killed after its last word";
}

TEST_F(RecordingFiles, OfAKilledRunOutlivesTheNextRun) {
  const auto next = [this] { create_recording(path_, small_header())->end(small_end()); };
  leave_killed(1);
  next();
  EXPECT_FALSE(read_recording(path_).killed);
  EXPECT_EQ(read_recording(killed_).entries[0].size(), 8U);
  EXPECT_TRUE(read_recording(killed_).killed);
  folder_.write("run.rec.partial", "no recording");
  next();
  EXPECT_TRUE(read_recording(killed_).killed) << "nothing else takes its place";
  leave_killed(written(small_header(), small_entries(), std::nullopt).size() / 2);
  next();
  EXPECT_EQ(read_recording(killed_).entries[0].size(), 8U) << "nor does a later one";
  leave_killed(0);
  std::filesystem::remove(killed_);
  const int reader = open(partial_.c_str(), O_RDONLY);
  ASSERT_EQ(flock(reader, LOCK_SH), 0);
  EXPECT_THROW(next(), recording_error) << "what cannot be kept is not overwritten";
  close(reader);
}

/// The run that goes on has another recording to go on with.
TEST_F(RecordingFiles, OfAKilledRunOutlivesARunThatGoesOn) {
  const recording before = parse_recording(small_recording(), "other.rec");
  leave_killed(1);
  continue_recording(path_, small_header(), before)->end(small_end());
  EXPECT_FALSE(read_recording(path_).killed);
  ASSERT_TRUE(std::filesystem::exists(killed_));
  EXPECT_TRUE(read_recording(killed_).killed);
}

/// Nothing but it has what lies before the checkpoint.
TEST_F(RecordingFiles, OfARunThatGoesOnStaysIfTheRunIsGivenUp) {
  folder_.write("run.rec.partial", small_recording());
  const recording before = read_recording(partial_);
  continue_recording(path_, small_header(), before).reset();
  EXPECT_EQ(read_recording(partial_).entries, before.entries);
  create_recording(path_ + ".new", small_header()).reset();
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new.partial"))
      << "one that has just begun has nothing to keep";
}

TEST_F(RecordingFiles, SaysSoIfAFileCannotBeReadOrWritten) {
  EXPECT_THROW(read_recording("/no/such/file"), std::system_error);
  EXPECT_THROW(read_recording("/"), std::exception);
  EXPECT_THROW(read_recording("/dev/zero"), recording_error) << "to read all of it takes for ever";
  EXPECT_THROW(create_recording("/no/such/folder/run.rec", small_header()), std::system_error);
  EXPECT_THAT([] { create_recording("/dev/full", small_header()); },
              ThrowsMessage<std::system_error>(
                  AllOf(HasSubstr("/dev/full"), HasSubstr("cannot be written: No space left"))));
  const recording before = parse_recording(small_recording(), "other.rec");
  for (const char* path : {"/no/such/folder/run.rec", "/dev/full"})
    EXPECT_THROW(continue_recording(path, small_header(), before), recording_error)
        << path << " is refused to a run that goes on, which then does so without its recording";
}

/// Two workers and one shard.
recording recorded() {
  recording r;
  r.name = "run.rec";
  r.header.workers = 2;
  r.entries = {{joining(0), joining(1), step_of(0, 1, 50), switching, step_of(1, 1, 70), leaving(0)}};
  r.batches = {{0, 2, 4}, {1, 3}};
  r.end.ended = "completed";
  r.end.switches = {{"sync", "planned", {1, 0}, {1, 1}}};
  return r;
}

recording_cut cut_after(const recording& r, std::size_t entries) {
  recording_cut at(1);
  at.add(0, std::span(r.entries[0]).first(entries));
  return at;
}

const std::vector<std::uint64_t> trained{2, 1};

TEST(RecordingCut, LeavesWhatLiesBeforeTheCheckpoint) {
  const recording r = recorded();
  const recording before = part_before(r, cut_after(r, 5), trained, 1);
  EXPECT_EQ(before.entries[0].size(), 5U);
  EXPECT_THAT(before.batches[0], ElementsAre(0, 2));
  EXPECT_THAT(before.batches[1], ElementsAre(1));
  EXPECT_EQ(before.end.switches.size(), 1U);
  EXPECT_EQ(before.end.ended, "") << "it goes on";
}

TEST(RecordingCut, IsTheSameInPiecesAndInAFile) {
  const recording r = recorded();
  recording_cut at(1);
  at.add(0, std::span(r.entries[0]).first(2));
  at.add(0, std::span(r.entries[0]).subspan(2, 3));
  EXPECT_EQ(at.checksums, cut_after(r, 5).checksums);
  std::stringbuf bytes;
  recording_writer file(std::make_unique<std::ostream>(&bytes), "memory", r.header);
  write_again(file, part_before(r, at, trained, 1));
  const recording again = parse_killed_recording(bytes.view(), "memory");
  EXPECT_EQ(part_before(again, at, trained, 1).entries, part_before(r, at, trained, 1).entries);
  EXPECT_EQ(again.batches, (std::vector<std::vector<std::uint64_t>>{{0, 2}, {1}}));
  EXPECT_EQ(again.end.switches, r.end.switches);
}

TEST(RecordingCut, RefusesARecordingThatCannotGoOn) {
  const recording r = recorded();
  const auto refused = [&](const recording& from, const recording_cut& at, std::size_t switches = 1) {
    return testing::words_of_refusal([&] { part_before(from, at, trained, switches); });
  };
  recording_cut more = cut_after(r, 5);
  more.entries[0] = 9;
  EXPECT_THAT(refused(r, more), HasSubstr("ends before the checkpoint: it has 6 of 9 turns of shard 0"));
  EXPECT_THAT(refused(r, cut_after(r, 5), 2), HasSubstr("it has 1 of 2 switches"));
  recording other = r;
  other.entries[0][2].arrived = 51;
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("is of another run than the checkpoint"));
  other = r;
  other.batches[0].resize(1);
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("it has 1 of 2 batches of worker 0"));
  EXPECT_THAT(refused(r, cut_after(r, 6)), HasSubstr("worker 0 had left before the checkpoint"));
  other = r;
  other.incarnations = {{{{1}, 2, false}}, {}};
  EXPECT_THAT(refused(other, cut_after(r, 5)), HasSubstr("workers had come or gone"));
  recording_cut failed = cut_after(r, 5);
  failed.failed = true;
  EXPECT_THAT(refused(r, failed), HasSubstr("could not be written before the checkpoint"));
  EXPECT_THAT(refused(r, recording_cut(2)), HasSubstr("the checkpoint is of 2 and 2"));
}

/// A disk on which a recording stops growing.
class FullRecording : public ::testing::Test {
protected:
  /// Takes so many bytes in all, and of the last ones as many as there is room for.
  class last_bytes : public std::stringbuf {
  public:
    explicit last_bytes(std::streamsize room) : room_(room) {}

  protected:
    std::streamsize xsputn(const char* from, std::streamsize count) override {
      const std::streamsize taken = std::stringbuf::xsputn(from, std::min(count, room_));
      room_ -= taken;
      if (taken < count) errno = ENOSPC;
      return taken;
    }

  private:
    std::streamsize room_;
  };

  static constexpr std::size_t part_bytes = 4 + 4 + 16 + 4;

  /// Records parts of one entry until the disk is full, of which `other_room` bytes are left for other files.
  /// Then gives the recording up for files that need `needed` bytes.
  recording_account fill(std::size_t parts, std::uint64_t other_room, std::uint64_t needed) {
    const std::size_t room = header_ + parts * part_bytes + part_bytes / 2;
    last_bytes disk(static_cast<std::streamsize>(room));
    recording_writer writer(std::make_unique<std::ostream>(&disk), "run.rec", small_header(),
                            {{},
                             {},
                             [this](std::uint64_t bytes) {
                               left_.push_back(bytes);
                               return bytes > 0 ? "run.rec.partial" : "";
                             },
                             [other_room] { return other_room; }});
    for (std::uint64_t i = 0; i < parts; ++i) {
      writer.add_entries(0, std::vector{joining(0)});
      EXPECT_FALSE(writer.failed());
    }
    writer.add_entries(0, std::vector{joining(1)});
    EXPECT_TRUE(writer.failed());
    const recording_account what = writer.give_up(needed);
    EXPECT_THAT(what.failure, HasSubstr("No space left"));
    EXPECT_EQ(what.bytes, header_ + parts * part_bytes) << "what was written whole";
    EXPECT_EQ(left_.size(), 1U);
    EXPECT_EQ(left_.back(), what.kept_bytes);
    EXPECT_EQ(what.removed, what.kept_bytes == 0);
    EXPECT_EQ(what.kept.empty(), what.removed);
    EXPECT_THROW(writer.end(small_end()), std::runtime_error);
    whole_ = disk.str();
    left_.clear();
    return what;
  }
  /// The entries of shard 0 in what was kept.
  std::size_t entries_in(const recording_account& what) const {
    return parse_killed_recording(std::string_view(whole_).substr(0, what.kept_bytes), what.kept)
        .entries[0]
        .size();
  }

  const std::size_t header_ = written(small_header(), {}, {}).size() - (4 + 4 + 3 * 8 + 4);
  std::vector<std::uint64_t> left_;
  std::string whole_;
};

TEST_F(FullRecording, KeepsAllThatIsWholeWhereOthersHaveRoom) {
  for (const std::uint64_t room : {1000U, 1001U, 1'000'000U}) EXPECT_EQ(entries_in(fill(9, room, 1000)), 9U);
}

TEST_F(FullRecording, GivesOthersTheRoomThatTheyNeed) {
  EXPECT_EQ(entries_in(fill(9, 999, 1000)), 8U);
  EXPECT_EQ(entries_in(fill(9, 1000 - part_bytes, 1000)), 8U);
  EXPECT_EQ(entries_in(fill(9, 999 - part_bytes, 1000)), 7U);
  EXPECT_EQ(entries_in(fill(9, 0, 8 * part_bytes)), 1U);
}

TEST_F(FullRecording, IsRemovedWhereNoPartIsLeft) {
  EXPECT_TRUE(fill(9, 0, 9 * part_bytes).removed) << "a header alone has nothing to repeat";
  EXPECT_TRUE(fill(9, 0, std::numeric_limits<std::uint64_t>::max()).removed);
  EXPECT_TRUE(fill(0, 1'000'000, 0).removed);
}

/// The ends of some parts are forgotten, so a little more than what is needed may go.
TEST_F(FullRecording, MayHaveManyParts) {
  for (const std::size_t parts : {4094U, 4095U, 4096U, 20'000U, 50'000U}) {
    EXPECT_EQ(entries_in(fill(parts, 0, 0)), parts);
    const std::size_t kept = entries_in(fill(parts, 0, parts / 2 * part_bytes));
    EXPECT_LE(kept, parts - parts / 2);
    EXPECT_GT(kept, parts / 2 - parts / 1000 - 2);
  }
}

} // namespace
} // namespace mailgrad
