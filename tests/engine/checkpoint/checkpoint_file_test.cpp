#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/safetensors.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

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
