#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFolder : public ::testing::Test {
protected:
  void write(std::uint64_t steps) const {
    const auto run = std::make_shared<saved_fields>();
    run->field("steps", steps);
    write_checkpoint_file(folder_.path() / checkpoint_name(steps), {{"run", run}});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& path : checkpoints_in(folder_.path())) all.push_back(path.filename());
    return all;
  }

  scratch_folder folder_;
};

TEST_F(CheckpointFolder, NamesFilesBySteps) {
  EXPECT_EQ(checkpoint_name(500), "checkpoint-0000000500.safetensors");
  EXPECT_EQ(checkpoint_name(123'456'789'012), "checkpoint-123456789012.safetensors");
}

TEST_F(CheckpointFolder, ListsTheNewestFirstAndNoOtherFiles) {
  for (const std::uint64_t steps : {90ULL, 123'456'789'012ULL, 1000ULL}) write(steps);
  for (const char* other :
       {"checkpoint-.safetensors", "checkpoint-12x.safetensors", "checkpoint-5.safetensors.partial",
        "weights.safetensors", "checkpoint--1.safetensors"})
    folder_.write(other, "");
  EXPECT_THAT(names(),
              ElementsAre(checkpoint_name(123'456'789'012), checkpoint_name(1000), checkpoint_name(90)));
}

TEST_F(CheckpointFolder, ReadsTheStepsInANameWhereItLiesThere) {
  write(500);
  EXPECT_EQ(steps_named_in(folder_.path(), folder_.path() / checkpoint_name(500)), 500U);
  EXPECT_EQ(steps_named_in(folder_.path() / ".", folder_.path() / "weights.safetensors"), 0U);
  EXPECT_EQ(steps_named_in(folder_.path().parent_path(), folder_.path() / checkpoint_name(500)), 0U);
  EXPECT_EQ(steps_named_in("", folder_.path() / checkpoint_name(500)), 0U);
  EXPECT_EQ(steps_named_in(folder_.path(), ""), 0U);
}

TEST_F(CheckpointFolder, TakesTheNewestThatIsWhole) {
  for (const std::uint64_t steps : {1, 2}) write(steps);
  folder_.write(checkpoint_name(3), "cut");
  const found_checkpoint found = newest_checkpoint(folder_.path());
  EXPECT_EQ(found.what.path().filename(), checkpoint_name(2));
  ASSERT_EQ(found.refused.size(), 1U);
  EXPECT_THAT(found.refused[0], HasSubstr(checkpoint_name(3)));
}

TEST_F(CheckpointFolder, TakesTheFileThatIsNamed) {
  for (const std::uint64_t steps : {1, 2}) write(steps);
  EXPECT_EQ(newest_checkpoint(folder_.path() / checkpoint_name(1)).what.path().filename(),
            checkpoint_name(1));
}

TEST_F(CheckpointFolder, SaysWhyThereIsNone) {
  testing::expect_refused(testing::misuse{"empty", [&] { newest_checkpoint(folder_.path()); },
                                          "expected a checkpoint, found none"});
  std::filesystem::create_directories(folder_.path() / "lenet");
  folder_.write("lenet/" + checkpoint_name(3), "");
  testing::expect_refused(
      testing::misuse{"the folder above", [&] { newest_checkpoint(folder_.path()); },
                      "found none in this folder; '" + (folder_.path() / "lenet").string() + "' has some"});
  folder_.write(checkpoint_name(3), "cut");
  testing::expect_refused(
      {{"damaged", [&] { newest_checkpoint(folder_.path()); },
        "no checkpoint that can be read; the newest: "},
       {"no folder", [&] { newest_checkpoint(folder_.path() / "nowhere"); }, "No such file"}});
}

TEST_F(CheckpointFolder, KeepsTheNewestThatAreNotAhead) {
  for (const std::uint64_t steps : {10, 20, 30, 40, 99}) write(steps);
  remove_older_checkpoints(folder_.path(), 40, 2);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(40), checkpoint_name(30)))
      << "99 is of a run that went on from an older one; it is not this run's to remove";
}

/// A run that is killed again and again would fill the disk with them.
TEST_F(CheckpointFolder, KeepsNoPartOfAKilledRun) {
  write(10);
  folder_.write(checkpoint_name(20) + ".partial", "what was written of it");
  folder_.write("mine.partial", "");
  replaced_file written((folder_.path() / checkpoint_name(30)).string());
  remove_older_checkpoints(folder_.path(), 10, 3);
  std::vector<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    left.push_back(file.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre(checkpoint_name(10), checkpoint_name(30) + ".partial",
                                                    "mine.partial"))
      << "another run may be writing 30";
}

TEST_F(CheckpointFolder, MakesRoomByItsOldestButNeverByTheLastThatIsWhole) {
  for (const std::uint64_t steps : {10, 20, 30, 99}) write(steps);
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30), checkpoint_name(20)));
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none) << "only 20 is whole";
  write(30);
  folder_.write(checkpoint_name(20), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30)));
}

TEST_F(CheckpointFolder, MakesRoomByWhatAKilledRunLeftFirst) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  folder_.write(checkpoint_name(30) + ".partial", "what was written of it");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_killed);
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(CheckpointFolder, IsMadeAndTried) {
  const auto inner = folder_.path() / "a" / "b";
  { const folder_lock lock = prepare_checkpoint_folder(inner, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(inner));
}

TEST_F(CheckpointFolder, IsThatOfOneRunAtATime) {
  write(5);
  const auto prepare = [&] {
    return prepare_checkpoint_folder(folder_.path(), folder_.path() / checkpoint_name(5));
  };
  {
    const folder_lock first = prepare();
    testing::expect_refused({{"a second run", [&] { const folder_lock second = prepare(); },
                              "another run keeps its checkpoints there"}});
  }
  EXPECT_NO_THROW(const folder_lock third = prepare());
}

TEST_F(CheckpointFolder, KnowsWhetherACheckpointIsStillTheNewest) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const auto require = [&](std::uint64_t steps) { require_newest(folder_.path() / checkpoint_name(steps)); };
  EXPECT_NO_THROW(require(20));
  testing::expect_refused({{"an older one", [&] { require(10); },
                            "another process has written " + checkpoint_name(20) + " there meanwhile"}});
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_NO_THROW(require(20)) << "nobody can go on from what is damaged";
}

TEST_F(CheckpointFolder, MixesNoTwoRuns) {
  write(5);
  const auto elsewhere = folder_.path() / "elsewhere";
  const auto prepare = [](const std::filesystem::path& folder, const std::filesystem::path& resumed) {
    const folder_lock lock = prepare_checkpoint_folder(folder, resumed);
  };
  EXPECT_NO_THROW(prepare(folder_.path(), folder_.path() / "." / checkpoint_name(5)));
  EXPECT_NO_THROW(prepare(elsewhere, folder_.path() / checkpoint_name(5)));
  folder_.write("file", "");
  testing::expect_refused(
      {{"another run", [&] { prepare(folder_.path(), {}); }, "holds checkpoints of an earlier run"},
       {"a run of another folder", [&] { prepare(folder_.path(), elsewhere / checkpoint_name(7)); },
        "holds checkpoints of an earlier run"},
       {"a file", [&] { prepare(folder_.path() / "file", {}); }, "cannot be written"}});
}

checkpoint_parts two_parts() {
  const auto shard = std::make_shared<saved_fields>();
  std::uint64_t version = 12;
  std::vector<float> weights{1, 2, 3};
  shard->field("version", version);
  shard->group("shard", [&] { shard->floats("weights", weights); });
  const auto run = std::make_shared<saved_fields>();
  std::string policy = "async, \"sync\"@5";
  run->field("policy", policy);
  return {{"shard 0", shard}, {"run", run}};
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class CheckpointFile : public ::testing::Test {
protected:
  scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "checkpoint-0000000012.safetensors";
};

TEST_F(CheckpointFile, GivesBackEachPart) {
  const std::uint64_t bytes = write_checkpoint_file(path_, two_parts());
  EXPECT_EQ(bytes, std::filesystem::file_size(path_));
  const checkpoint c = checkpoint::read(path_);
  EXPECT_EQ(c.path(), path_);
  EXPECT_TRUE(c.has("run"));
  EXPECT_FALSE(c.has("shard 1"));
  const auto shard = c.part("shard 0");
  std::uint64_t version = 0;
  std::vector<float> weights(3);
  shard->field("version", version);
  shard->group("shard", [&] { shard->floats("weights", weights); });
  EXPECT_EQ(version, 12U);
  EXPECT_EQ(weights, (std::vector<float>{1, 2, 3}));
  std::string policy;
  c.part("run")->field("policy", policy);
  EXPECT_EQ(policy, "async, \"sync\"@5");
}

TEST_F(CheckpointFile, IsSafetensorsForOtherTools) {
  write_checkpoint_file(path_, two_parts());
  safetensors_file file(path_);
  ASSERT_EQ(file.arrays().size(), 1U);
  EXPECT_EQ(file.arrays()[0].name, "shard 0/shard/weights");
  EXPECT_EQ(file.metadata().at("format"), "mailgrad checkpoint 1");
}

TEST_F(CheckpointFile, NeedsNoFile) {
  const checkpoint c = checkpoint::of(two_parts(), "in memory");
  std::uint64_t version = 0;
  c.part("shard 0")->field("version", version);
  EXPECT_EQ(version, 12U);
}

/// Every byte that is lost, and every byte that is changed, is found.
TEST_F(CheckpointFile, RefusesWhatIsCutOrDamaged) {
  write_checkpoint_file(path_, two_parts());
  const std::string whole = bytes_of(path_);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    folder_.write(path_.filename(), whole.substr(0, length));
    EXPECT_THROW(checkpoint::read(path_), file_error) << "cut to " << length << " bytes";
  }
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x04);
    folder_.write(path_.filename(), damaged);
    try {
      const checkpoint c = checkpoint::read(path_);
      ADD_FAILURE() << "byte " << place << " changed to '" << damaged[place] << "' is not noticed";
    } catch (const file_error& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
}

TEST_F(CheckpointFile, RefusesOtherFiles) {
  const std::vector<float> weights{1};
  const std::vector<array_to_store> arrays{{"dense1/weights", shape{1}, weights}};
  write_safetensors(path_, arrays, {});
  testing::expect_refused({{"weights", [&] { checkpoint::read(path_); },
                            "expected a checkpoint, found a safetensors file of another program; "},
                           {"nothing", [&] { checkpoint::read(folder_.path() / "nothing"); }, "No such file"},
                           {"an array of no part",
                            [&] {
                              write_safetensors(path_, arrays, {{"format", "mailgrad checkpoint 1"}});
                              checkpoint::read(path_);
                            },
                            "is of no part"},
                           {"no such part", [] { checkpoint::of(two_parts(), "x").part("worker 3"); },
                            "'x' has no part 'worker 3'"}});
}

/// What people take for a checkpoint is told as what it is, with what it is for.
TEST_F(CheckpointFile, SaysWhatIsNoCheckpoint) {
  const auto reading = [this](const std::string& bytes) {
    return [this, bytes] { checkpoint::read(folder_.write("x", bytes)); };
  };
  const std::string rest(300, '\x11');
  testing::expect_refused(
      {{"nothing in it", reading(""),
        "expected a checkpoint, found an empty file; --resume takes the folder that "},
       {"ONNX", reading(std::string("\x08\x0a\x12\x07pytorch:", 12) + rest),
        "found a model of ONNX; 'mailgrad train --load' begins a run with the weights that it is of; "
        "--resume"},
       {"PyTorch", reading("\x80\x02" + rest), "found a pickle of PyTorch, which holds no run; --resume"},
       {"a recording", reading("mgradrec" + rest),
        "x' repeats its run; --resume takes the folder that --check"},
       {"a report", reading("\n {\"accuracy\": 0.5}"), "found a text in JSON, such as a report or a model; "},
       {"data", reading("5.1,3.5,1.4,0.2,0\n4.9,3,1.4,0.2,0\n"), "found a text; --resume takes the folder"},
       {"noise", reading(rest), "the header is said to have"}});
}

TEST_F(CheckpointFile, LeavesTheOlderOneIfItCannotBeWritten) {
  testing::expect_refused(
      testing::misuse{"no folder", [&] { write_checkpoint_file(folder_.path() / "a" / "b", two_parts()); },
                      "cannot be written"});
}

} // namespace
} // namespace mailgrad
