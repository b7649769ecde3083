#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::nan;
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

} // namespace
} // namespace mailgrad
