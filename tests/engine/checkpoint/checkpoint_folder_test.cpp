#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/checkpoint/left_branch.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::misuse;
using testing::nan;
using testing::words_of_refusal;
using namespace ::testing;

evaluation_made tested(std::uint64_t steps, double loss) { return {.steps = steps, .loss = loss}; }

/// Each test does better than the one before.
void offer(best_weights& best, std::uint64_t steps) {
  best.offer(tested(steps, 1.0 / static_cast<double>(steps)), std::vector<float>{static_cast<float>(steps)});
}

TEST(BestWeights, KeepThoseOfTheLowestLoss) {
  best_weights best(std::nullopt);
  EXPECT_FALSE(best.best());
  best.offer(tested(5, nan), std::vector<float>{9});
  EXPECT_FALSE(best.best()) << "a loss that is no number is not better than none";
  best.offer(tested(10, 0.5), std::vector<float>{1, 2});
  best.offer(tested(20, 0.4), std::vector<float>{3, 4});
  best.offer(tested(30, 0.4), std::vector<float>{5, 6});
  best.offer(tested(40, nan), std::vector<float>{7, 8});
  ASSERT_TRUE(best.best());
  EXPECT_EQ(best.best()->test.steps, 20U) << "the first of equals";
  EXPECT_THAT(best.best()->weights, ElementsAre(3, 4));
}

TEST(BestWeights, OutliveTheProcessInAFolder) {
  const scratch_folder folder;
  EXPECT_FALSE(best_weights_in(folder.path()).best);
  {
    best_weights best(folder.path());
    evaluation_made x{.steps = 10, .loss = 0.5, .accuracy = 0.75, .rmse = {}, .seconds = 2, .held_out = true};
    best.offer(x, std::vector<float>{1, -2.5F});
    best.offer(tested(20, 0.6), std::vector<float>{0, 0});
    EXPECT_EQ(best.failure(), "");
  }
  const auto found = best_weights_in(folder.path()).best;
  ASSERT_TRUE(found);
  EXPECT_THAT(found->weights, ElementsAre(1, -2.5F));
  EXPECT_THAT(found->test, FieldsAre(10, 0.5, Optional(0.75), Eq(std::nullopt), _, true, _));
  best_weights resumed(folder.path(), found);
  resumed.offer(tested(30, 0.55), std::vector<float>{4, 4});
  EXPECT_EQ(best_weights_in(folder.path()).best->test.steps, 10U) << "the earlier ones did better";
  resumed.offer(tested(40, 0.45), std::vector<float>{5, 5});
  EXPECT_EQ(best_weights_in(folder.path()).best->test.steps, 40U);

  const scratch_folder new_one;
  best_weights moved(new_one.path(), found);
  EXPECT_FALSE(best_weights_in(new_one.path()).best) << "the run may still be refused";
  moved.begin();
  EXPECT_EQ(best_weights_in(new_one.path()).best->test.steps, 10U);
}

/// A run may go on from any of its checkpoints, with the best weights that it had then.
TEST(BestWeights, StayAsLongAsACheckpointStandsOnThem) {
  const scratch_folder folder;
  best_weights best(folder.path());
  const auto at = [&](std::uint64_t steps) {
    const auto found = best_weights_in(folder.path(), {.steps = steps}).best;
    return found ? found->test.steps : 0;
  };
  for (const std::uint64_t steps : {10, 20}) offer(best, steps);
  folder.write(checkpoint_name(25), "");
  for (const std::uint64_t steps : {30, 40, 50}) offer(best, steps);
  EXPECT_EQ(at(25), 20U);
  EXPECT_EQ(at(45), 40U) << "a checkpoint of then may be being written";
  EXPECT_EQ(at(50), 50U);
  EXPECT_EQ(at(5), 0U);
  EXPECT_EQ(earlier_best_files(folder.path()).size(), 3U) << "nobody goes on from 10";
  EXPECT_EQ(best_weights_in(folder.path(), {.steps = 25, .lowest_loss = 1.0 / 30}).best->test.steps, 30U)
      << "that test may have been under way when the checkpoint was taken";
  EXPECT_EQ(best_weights_in(folder.path(), {.steps = 25, .lowest_loss = 1.0 / 50}).best->test.steps, 50U)
      << "the checkpoint tells of a test that began a little later";
  std::filesystem::remove(folder.path() / checkpoint_name(25));
  offer(best, 60);
  EXPECT_EQ(earlier_best_files(folder.path()).size(), 1U);
}

TEST(BestWeights, SayWhyTheyAreNotInTheFolder) {
  best_weights best("/no/such/folder");
  best.offer(tested(10, 0.5), std::vector<float>{1});
  EXPECT_THAT(best.failure(), HasSubstr("the best weights are not kept for a resume: "));
  EXPECT_THAT(best.failure(), HasSubstr("/no/such/folder"));
  EXPECT_TRUE(best.best()) << "they are in memory all the same";
}

/// Which the others certainly are better than, or which is of a later test.
TEST(BestWeights, PassOverADamagedFileThatIsNotNeeded) {
  const scratch_folder folder;
  best_weights best(folder.path());
  for (const std::uint64_t steps : {10, 20, 30}) {
    offer(best, steps);
    folder.write(checkpoint_name(steps + 1), "");
  }
  const auto later = earlier_best_file(folder.path(), 20);
  const auto newest = folder.path() / best_weights::file_name;
  folder.write(later.filename().string(), "damaged");
  const found_best before = best_weights_in(folder.path(), {.steps = 11});
  EXPECT_EQ(before.best->test.steps, 10U);
  EXPECT_THAT(before.passed_over,
              ElementsAre(StartsWith("passed over a damaged file that is not needed: " + later.string())));
  EXPECT_THROW(best_weights_in(folder.path(), {.steps = 21}), std::runtime_error) << "it is of that history";
  folder.write(newest.filename().string(), "damaged as well");
  EXPECT_THROW(best_weights_in(folder.path(), {.steps = 11}), std::runtime_error)
      << "nobody knows of which test it is";
  const found_best told = best_weights_in(folder.path(), {.steps = 11, .lowest_loss = 0.1});
  EXPECT_EQ(told.best->test.steps, 10U) << "the checkpoint tells that this was the best";
  EXPECT_EQ(told.passed_over.size(), 2U);
  EXPECT_THROW(best_weights_in(folder.path(), {.steps = 11, .lowest_loss = 0.05}), std::runtime_error);

  best_weights resumed(folder.path(), told.best);
  resumed.begin();
  EXPECT_EQ(best_weights_in(folder.path(), {.steps = 11, .lowest_loss = 0.1}).best->test.steps, 10U);
  EXPECT_TRUE(std::filesystem::exists(newest.string() + ".damaged")) << "it is not written over";
}

/// Weights of a later test may take as much memory as a checkpoint.
TEST(BestWeights, ReadNoWeightsOfALaterTest) {
  const scratch_folder folder;
  best_weights best(folder.path());
  for (const std::uint64_t steps : {10, 20}) offer(best, steps);
  const auto newest = folder.path() / best_weights::file_name;
  std::string bytes(std::filesystem::file_size(newest), '\0');
  std::ifstream(newest, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write(newest.filename().string(), bytes);
  EXPECT_EQ(best_weights_in(folder.path(), {.steps = 15}).best->test.steps, 10U);
  EXPECT_THROW(best_weights_in(folder.path(), {.steps = 25}), std::runtime_error) << "its checksum is wrong";
}

TEST(BestWeights, RefuseADamagedFile) {
  const scratch_folder folder;
  best_weights(folder.path()).offer(tested(10, 0.5), std::vector<float>{1, 2, 3});
  const auto file = folder.path() / best_weights::file_name;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4);
  EXPECT_THAT([&] { best_weights_in(folder.path()); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr(best_weights::file_name),
                        HasSubstr("; move that file away to go on without the best weights so far"))));
}

class CheckpointFolder : public ::testing::Test {
protected:
  std::filesystem::path at(std::uint64_t steps) const { return folder_.path() / checkpoint_name(steps); }
  void write(std::initializer_list<std::uint64_t> all) const {
    for (std::uint64_t steps : all) {
      const auto run = std::make_shared<saved_fields>();
      run->field("steps", steps);
      write_checkpoint_file(at(steps), {{"run", run}});
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& path : checkpoints_in(folder_.path())) all.push_back(path.filename());
    return all;
  }

  scratch_folder folder_;
};

TEST_F(CheckpointFolder, ListsTheNewestFirstAndNoOtherFiles) {
  EXPECT_EQ(checkpoint_name(500), "checkpoint-0000000500.safetensors");
  EXPECT_EQ(checkpoint_name(123'456'789'012), "checkpoint-123456789012.safetensors");
  write({90, 123'456'789'012, 1000});
  for (const char* other :
       {"checkpoint-.safetensors", "checkpoint-12x.safetensors", "checkpoint-5.safetensors.partial",
        "weights.safetensors", "checkpoint--1.safetensors"})
    folder_.write(other, "");
  EXPECT_THAT(names(),
              ElementsAre(checkpoint_name(123'456'789'012), checkpoint_name(1000), checkpoint_name(90)));
}

TEST_F(CheckpointFolder, ReadsTheStepsInANameWhereItLiesThere) {
  write({500});
  EXPECT_EQ(steps_named_in(folder_.path(), at(500)), 500U);
  EXPECT_EQ(steps_named_in(folder_.path() / ".", folder_.path() / "weights.safetensors"), 0U);
  EXPECT_EQ(steps_named_in(folder_.path().parent_path(), at(500)), 0U);
  EXPECT_EQ(steps_named_in("", at(500)), 0U);
  EXPECT_EQ(steps_named_in(folder_.path(), ""), 0U);
}

TEST_F(CheckpointFolder, TakesTheNewestThatIsWholeOrTheFileThatIsNamed) {
  write({1, 2});
  folder_.write(checkpoint_name(3), "cut");
  const found_checkpoint found = newest_checkpoint(folder_.path());
  EXPECT_EQ(found.what.path(), at(2));
  EXPECT_THAT(found.refused, ElementsAre(HasSubstr(checkpoint_name(3))));
  EXPECT_EQ(newest_checkpoint(at(1)).what.path(), at(1));
}

TEST_F(CheckpointFolder, SaysWhyThereIsNone) {
  const auto newest = [&] { newest_checkpoint(folder_.path()); };
  expect_refused({"empty", newest, "expected a checkpoint, found none"});
  std::filesystem::create_directories(folder_.path() / "lenet");
  folder_.write("lenet/" + checkpoint_name(3), "");
  expect_refused({"the folder above", newest,
                  "found none in this folder; '" + (folder_.path() / "lenet").string() + "' has some"});
  folder_.write(checkpoint_name(3), "cut");
  expect_refused({"damaged", newest, "no checkpoint that can be read; the newest: "});
  expect_refused({"no folder", [&] { newest_checkpoint(folder_.path() / "nowhere"); }, "No such file"});
}

TEST_F(CheckpointFolder, KeepsTheNewestThatAreNotAhead) {
  write({10, 20, 30, 40, 99});
  remove_older_checkpoints(folder_.path(), 40, 2);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(40), checkpoint_name(30)))
      << "99 is of a run that went on from an older one; it is not this run's to remove";
}

/// A run that is killed again and again would fill the disk with them.
TEST_F(CheckpointFolder, KeepsNoPartOfAKilledRun) {
  write({10});
  folder_.write(checkpoint_name(20) + ".partial", "what was written of it");
  folder_.write("mine.partial", "");
  replaced_file written((folder_.path() / checkpoint_name(30)).string());
  remove_older_checkpoints(folder_.path(), 10, 3);
  std::vector<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    left.push_back(file.path().filename());
  EXPECT_THAT(left,
              UnorderedElementsAre(checkpoint_name(10), checkpoint_name(30) + ".partial", "mine.partial"))
      << "another run may be writing 30";
}

TEST_F(CheckpointFolder, MakesRoomByItsOldestButNeverByTheLastThatIsWhole) {
  write({10, 20, 30, 99});
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30), checkpoint_name(20)));
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none) << "only 20 is whole";
  write({30});
  folder_.write(checkpoint_name(20), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30)));
}

TEST_F(CheckpointFolder, MakesRoomByWhatAKilledRunLeftFirst) {
  write({10, 20});
  folder_.write(checkpoint_name(30) + ".partial", "what was written of it");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_killed);
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(CheckpointFolder, IsThatOfOneRunAtATime) {
  const auto prepare = [](const std::filesystem::path& folder, const std::filesystem::path& resumed) {
    return prepare_checkpoint_folder(folder, resumed);
  };
  const auto inner = folder_.path() / "a" / "b", elsewhere = folder_.path() / "elsewhere";
  { const folder_lock lock = prepare(inner, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(inner)) << "it is made and tried";
  write({5});
  {
    const folder_lock first = prepare(folder_.path(), at(5));
    expect_refused(
        {"a second run", [&] { prepare(folder_.path(), at(5)); }, "another run keeps its checkpoints there"});
  }
  EXPECT_NO_THROW(prepare(folder_.path(), folder_.path() / "." / checkpoint_name(5)));
  EXPECT_NO_THROW(prepare(elsewhere, at(5)));
  folder_.write("file", "");
  expect_refused(
      {{"another run", [&] { prepare(folder_.path(), {}); }, "holds checkpoints of an earlier run"},
       {"a run of another folder", [&] { prepare(folder_.path(), elsewhere / checkpoint_name(7)); },
        "holds checkpoints of an earlier run"},
       {"a file", [&] { prepare(folder_.path() / "file", {}); }, "cannot be written"}});
}

TEST_F(CheckpointFolder, KnowsWhetherACheckpointIsStillTheNewest) {
  write({10, 20});
  EXPECT_NO_THROW(require_newest(at(20)));
  expect_refused({"an older one", [&] { require_newest(at(10)); },
                  "another process has written " + checkpoint_name(20) + " there meanwhile"});
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_NO_THROW(require_newest(at(20))) << "nobody can go on from what is damaged";
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
  EXPECT_EQ(checkpoint::read(path_).path(), path_);
  const checkpoint both[] = {checkpoint::read(path_), checkpoint::of(two_parts(), "in memory")};
  for (const checkpoint& c : both) {
    EXPECT_TRUE(c.has("run"));
    EXPECT_FALSE(c.has("shard 1"));
    const auto shard = c.part("shard 0");
    std::uint64_t version = 0;
    std::vector<float> weights(3);
    shard->field("version", version);
    shard->group("shard", [&] { shard->floats("weights", weights); });
    EXPECT_EQ(version, 12U);
    EXPECT_THAT(weights, ElementsAre(1, 2, 3));
    std::string policy;
    c.part("run")->field("policy", policy);
    EXPECT_EQ(policy, "async, \"sync\"@5");
  }
  safetensors_file file(path_);
  ASSERT_EQ(file.arrays().size(), 1U) << "for other tools";
  EXPECT_EQ(file.arrays()[0].name, "shard 0/shard/weights");
  EXPECT_EQ(file.metadata().at("format"), "mailgrad checkpoint 1");
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
  const auto read = [this] { checkpoint::read(path_); };
  write_safetensors(path_, arrays, {});
  expect_refused({"weights", read, "expected a checkpoint, found a safetensors file of another program; "});
  write_safetensors(path_, arrays, {{"format", "mailgrad checkpoint 1"}});
  expect_refused({"an array of no part", read, "is of no part"});
  expect_refused({"nothing", [&] { checkpoint::read(folder_.path() / "nothing"); }, "No such file"});
  expect_refused({"no such part", [] { checkpoint::of(two_parts(), "x").part("worker 3"); },
                  "'x' has no part 'worker 3'"});
  expect_refused({"no folder", [&] { write_checkpoint_file(folder_.path() / "a" / "b", two_parts()); },
                  "cannot be written"});
}

/// What people take for a checkpoint is told as what it is, with what it is for.
TEST_F(CheckpointFile, SaysWhatIsNoCheckpoint) {
  const auto reading = [this](const std::string& bytes) {
    return [this, bytes] { checkpoint::read(folder_.write("x", bytes)); };
  };
  const std::string rest(300, '\x11');
  expect_refused(
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

checkpoint kept_of(const hogwild_store& block, block_weights which) {
  return checkpoint::of({{block_part, keep_block(block, which)}}, "kept");
}

/// Only schedules count what workers wrote that do not go on.
TEST(KeptBlock, HasItsWeightsAndCountsAgain) {
  hogwild_store block(std::vector<float>{1, 2, 3});
  block.advance();
  const checkpoint from = kept_of(block, block_weights::all);
  block.add(0, 100); // behind the cut
  hogwild_store again(std::vector<float>(3));
  restore_block(from, again, block_weights::all, 1);
  EXPECT_EQ(again.version(), 1U);
  EXPECT_EQ(again.before(), 0U);
  EXPECT_EQ(again.load(0), 1);
  EXPECT_EQ(again.load(2), 3);
  hogwild_store resumed(std::vector<float>{1, 2, 3});
  resumed.go_on_from(5, 7);
  resumed.advance();
  hogwild_store later(std::vector<float>(3));
  restore_block(kept_of(resumed, block_weights::all), later, block_weights::all, 4);
  EXPECT_EQ(later.version(), 4U);
  EXPECT_EQ(later.before(), 9U) << "what other workers wrote";
  EXPECT_EQ(later.updates(), resumed.updates());
}

TEST(KeptBlock, LeavesTheWeightsToTheShards) {
  const hogwild_store block(std::vector<float>{1, 2, 3});
  hogwild_store again(std::vector<float>{7, 8, 9});
  restore_block(kept_of(block, block_weights::in_shards), again, block_weights::in_shards, 0);
  EXPECT_EQ(again.load(1), 8);
}

TEST(KeptBlock, IsRefusedIfItDoesNotFit) {
  const hogwild_store block(std::vector<float>{1, 2, 3});
  const auto refusal = [&](std::size_t floats, block_weights which, std::uint64_t updates) {
    hogwild_store again(std::vector<float>(floats, 0.0F));
    return words_of_refusal(
        [&] { restore_block(kept_of(block, which), again, block_weights::all, updates); });
  };
  EXPECT_EQ(refusal(4, block_weights::all, 0), "block/weights: expected 4 floats, found 3");
  EXPECT_EQ(refusal(3, block_weights::all, 1), "block: its workers made 1 updates, and it counts 0");
  EXPECT_NE(refusal(3, block_weights::in_shards, 0), "");
}

class LeftBranch : public CheckpointFolder {
protected:
  void test(std::uint64_t steps) {
    best_.offer({.steps = steps, .loss = 1.0 / static_cast<double>(steps)}, {});
  }
  /// Checkpoints after 10, 20 and 30 steps, each behind a test that was the best so far.
  void write_and_test() {
    for (const std::uint64_t steps : {10, 20, 30}) {
      test(steps - 1);
      write({steps});
    }
  }
  static std::set<std::string> files_in(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder))
      if (file.is_regular_file()) names.insert(file.path().filename());
    return names;
  }

  best_weights best_{folder_.path()};
};

TEST_F(LeftBranch, KeepsItsRecordingUnderAnotherName) {
  write({10, 20});
  const std::string recording = folder_.write("run.rec", "turns").string();
  EXPECT_EQ(leave_recording(at(20), {.steps = 20}, recording), "") << "nothing came later";
  EXPECT_EQ(leave_recording(at(10), {.steps = 10}, folder_.path() / "none"), "");
  const std::string name = recording + ".left-after-0000000010";
  EXPECT_EQ(leave_recording(at(10), {.steps = 10}, recording),
            "set aside in " + name + ": the recording of the run that is left");
  std::filesystem::remove(recording);
  EXPECT_EQ(std::filesystem::file_size(name), 5U);
  folder_.write("run.rec", "others");
  leave_recording(at(10), {.steps = 10}, recording);
  EXPECT_EQ(std::filesystem::file_size(name + "-2"), 6U) << "the first is not written over";
}

/// A checkpoint that somebody has given another name tells its steps.
TEST_F(LeftBranch, HasTheStepsOfACheckpointOfAnyName) {
  write({10, 20, 30});
  std::filesystem::rename(at(20), folder_.path() / "mine.safetensors");
  const left_branch left = leave_later_branch(folder_.path() / "mine.safetensors", {.steps = 20});
  EXPECT_EQ(left.folder.filename(), "left-after-0000000020");
  EXPECT_EQ(left.checkpoints, 1U);
}

TEST_F(LeftBranch, IsWholeInAFolderOfItsOwn) {
  write_and_test();
  const left_branch left = leave_later_branch(at(20), {.steps = 20});
  EXPECT_EQ(left.folder, folder_.path() / "left-after-0000000020");
  EXPECT_THAT(files_in(folder_.path()),
              ElementsAre("best-weights-0000000009.safetensors", "best-weights-0000000019.safetensors",
                          checkpoint_name(10), checkpoint_name(20)));
  EXPECT_THAT(files_in(left.folder), ElementsAre("best-weights-0000000019.safetensors",
                                                 best_weights::file_name, checkpoint_name(30)))
      << "those of 19 are of both branches";
  EXPECT_EQ(best_weights_in(left.folder).best->test.steps, 29U);
  EXPECT_EQ(newest_checkpoint(left.folder).what.path().filename(), checkpoint_name(30));
  EXPECT_EQ(in_words(left),
            "set aside in " + left.folder.string() +
                ": 1 later checkpoint and the best weights, which are of a later test; 'mailgrad "
                "train --resume " +
                left.folder.string() + "' goes on from there");
}

TEST_F(LeftBranch, ReplacesNoOther) {
  write({10, 20});
  const std::filesystem::path first = leave_later_branch(at(10), {.steps = 10}).folder;
  write({20});
  EXPECT_EQ(leave_later_branch(at(10), {.steps = 10}).folder, first.string() + "-2");
  EXPECT_THAT(files_in(first), ElementsAre(checkpoint_name(20)));
}

TEST_F(LeftBranch, IsNoneBehindTheNewestCheckpoint) {
  test(9);
  write({10, 20});
  const left_branch left = leave_later_branch(at(20), {.steps = 20});
  EXPECT_TRUE(left.folder.empty());
  EXPECT_EQ(in_words(left), "");
  EXPECT_EQ(files_in(folder_.path()).size(), 3U);
}

/// A run that was killed may have had a better test since its last checkpoint.
TEST_F(LeftBranch, MayBeNoMoreThanWeights) {
  write({10});
  test(15);
  const left_branch left = leave_later_branch(at(10), {.steps = 10});
  EXPECT_EQ(in_words(left),
            "set aside in " + left.folder.string() + ": the best weights, which are of a later test");
  folder_.write(checkpoint_name(30), "damaged");
  EXPECT_THAT(in_words(leave_later_branch(at(10), {.steps = 10})), EndsWith(": 1 later checkpoint"))
      << "nothing goes on from there";
}

/// What is told of a folder does not depend on where a process ended: before the first move all is as it was,
/// and then a resume of the folder goes on from the checkpoint that was asked for.
TEST_F(LeftBranch, IsCompletedIfItsProcessIsKilledBetweenTwoMoves) {
  for (int killed_after = 1;; ++killed_after) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    best_weights anew(folder_.path());
    for (const std::uint64_t steps : {10, 20, 30}) {
      anew.offer({.steps = steps - 1, .loss = 1.0 / static_cast<double>(steps)}, {});
      write({steps});
    }
    const pid_t process = fork();
    if (process == 0) {
      int steps = 0;
      leave_later_branch(at(10), {.steps = 10}, [&] {
        if (++steps == killed_after) raise(SIGKILL);
      });
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(killed_after, 8) << "a plan, a folder, four files and its name are seven changes";
      break;
    }
    EXPECT_EQ(newest_checkpoint(folder_.path()).what.path(), at(10)) << killed_after;
    EXPECT_NO_THROW(require_newest(at(10))) << killed_after;
    if (std::filesystem::exists(at(30))) {
      EXPECT_THAT(complaint([&] { newest_checkpoint(at(30)); }), HasSubstr("was being set aside"));
    }
    const left_branch left = complete_left_branch(folder_.path());
    EXPECT_THAT(files_in(folder_.path()),
                ElementsAre("best-weights-0000000009.safetensors", checkpoint_name(10)))
        << killed_after;
    EXPECT_THAT(files_in(left.folder),
                ElementsAre("best-weights-0000000009.safetensors", "best-weights-0000000019.safetensors",
                            best_weights::file_name, checkpoint_name(20), checkpoint_name(30)))
        << killed_after;
    EXPECT_TRUE(left.goes_on && left.best);
    EXPECT_EQ(left.checkpoints, 2U);
    EXPECT_TRUE(complete_left_branch(folder_.path()).folder.empty()) << "once";
  }
}

/// A folder of the name of a file is in its way.
TEST_F(LeftBranch, IsNoneIfAFileCannotBeMoved) {
  write_and_test();
  const auto before = files_in(folder_.path());
  int changes = 0;
  EXPECT_THAT(complaint([&] {
                leave_later_branch(at(10), {.steps = 10}, [&] {
                  if (++changes == 3)
                    std::filesystem::create_directory(folder_.path() / "left-after-0000000010.partial" /
                                                      checkpoint_name(20));
                });
              }),
              checkpoint_name(20) + ": cannot be written: Is a directory");
  EXPECT_EQ(files_in(folder_.path()), before);
  EXPECT_EQ(newest_checkpoint(folder_.path()).what.path(), at(30)) << "nothing was set aside";
  std::filesystem::remove_all(folder_.path() / "left-after-0000000010.partial");
  EXPECT_EQ(leave_later_branch(at(10), {.steps = 10}).checkpoints, 2U);
}

/// Whoever may write into the folder could make one once the plan is written.
TEST_F(LeftBranch, FollowsNoLinkOfItsName) {
  write({10, 20});
  const auto before = files_in(folder_.path());
  const std::filesystem::path elsewhere = folder_.path() / "of somebody else";
  std::filesystem::create_directory(elsewhere);
  int changes = 0;
  EXPECT_THAT(complaint([&] {
                leave_later_branch(at(10), {.steps = 10}, [&] {
                  if (++changes == 1)
                    std::filesystem::create_directory_symlink(elsewhere, folder_.path() /
                                                                             "left-after-0000000010.partial");
                });
              }),
              HasSubstr("Not a directory"));
  EXPECT_EQ(files_in(folder_.path()), before);
  EXPECT_TRUE(files_in(elsewhere).empty());
}

TEST_F(LeftBranch, IsToldByAFileThatNamesNothingElsewhere) {
  write({10});
  folder_.write(std::string(set_aside::file_name), "half of it");
  EXPECT_THAT(complaint([&] { newest_checkpoint(folder_.path()); }),
              HasSubstr("expected the files that are being set aside"));
  saved_fields fields;
  set_aside forged{"left", {"../" + checkpoint_name(10)}};
  fields.field("set aside", forged);
  folder_.write(std::string(set_aside::file_name), fields.text());
  EXPECT_THAT(complaint([&] { complete_left_branch(folder_.path()); }),
              HasSubstr("expected names of files, found '../"));
}

} // namespace
} // namespace mailgrad
