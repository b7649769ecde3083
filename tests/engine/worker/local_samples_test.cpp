#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>

namespace mailgrad {
namespace {

using namespace ::testing;

std::string some_rows() {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += std::to_string(i) + ',' + std::to_string(i % 4) + ",c" + (i % 2 == 0 ? "0\n" : "1\n");
  return text;
}

/// What a server says of its data, serialised and read again.
data_terms told_of(const data_split& d) {
  data_terms said{d.name, d.train.size(), digest_of(d.train), d.source};
  byte_archive_writer out;
  said.keep(out);
  byte_archive_reader in(out.bytes(), "data");
  data_terms read;
  read.keep(in);
  in.require_end();
  return read;
}

class LocalSamples : public ::testing::Test {
protected:
  const scratch_folder folder_;
  const std::string file_ = folder_.write("a.csv", some_rows()).string();
  const data_terms wanted_ = told_of(open_data(file_));
};

TEST_F(LocalSamples, AreFoundInACopyOfTheFileByHowTheRunHasOpenedIt) {
  open_options options;
  options.seed = 5;
  options.files.train_fraction = 0.5;
  const data_split run = open_data(file_, options);
  local_samples own(folder_.write("b.csv", some_rows()).string());
  const auto found = own.find(told_of(run));
  ASSERT_TRUE(found.samples) << found.why;
  EXPECT_EQ(digest_of(*found.samples), digest_of(run.train));
}

TEST_F(LocalSamples, AreOpenedOnceForAllWorkersOfAProcess) {
  local_samples own(file_);
  const auto first = own.find(wanted_);
  std::filesystem::remove(file_);
  EXPECT_EQ(own.find(wanted_).samples, first.samples);
}

TEST_F(LocalSamples, OfOtherBytesAreRefusedWithBothDigests) {
  const std::string other = folder_.write("b.csv", some_rows() + "9,9,c1\n").string();
  local_samples own(other);
  const auto found = own.find(wanted_);
  EXPECT_FALSE(found.samples);
  EXPECT_THAT(found.why,
              AllOf(HasSubstr("data '" + other + "': expected the 24 training samples of 'a.csv', SHA-256 " +
                              wanted_.sha256),
                    HasSubstr("found 25 of SHA-256 " + digest_of(open_data(other).train))));
}

TEST_F(LocalSamples, ThatCannotBeReadAreAReasonAndNoFailure) {
  local_samples nowhere((folder_.path() / "none.csv").string());
  EXPECT_THAT(nowhere.find(wanted_).why, HasSubstr("found none: "));
  local_samples too_large(file_, parsed_limit{8});
  EXPECT_THAT(too_large.find(wanted_).why, AllOf(HasSubstr("found none: "), Not(HasSubstr("\n"))));
  local_samples of_a_server_that_says_nothing("fashion-mnist");
  EXPECT_THAT(of_a_server_that_says_nothing.find({}).why, HasSubstr("the server does not say"));
}

TEST_F(LocalSamples, OfAProgramNeedNoFile) {
  const auto made = std::make_shared<const dataset>(testing::small_samples(12, 1));
  local_samples own("drawn", made);
  EXPECT_EQ(own.find({"run", 12, digest_of(*made)}).samples, made);
  const auto other = own.find({"run", 12, digest_of(testing::small_samples(12, 2))});
  EXPECT_FALSE(other.samples);
  EXPECT_THAT(other.why, HasSubstr("data 'drawn'"));
  EXPECT_THROW(local_samples("nothing", nullptr), std::invalid_argument);
}

using ids = std::vector<std::uint32_t>;

std::shared_ptr<const dataset> samples_in_rows() {
  return std::make_shared<dataset>(testing::small_samples(12, 1));
}

TEST(LocalBatches, HaveTheBytesOfThoseThatAreSent) {
  const std::vector<std::shared_ptr<const dataset>> sets{
      samples_in_rows(), std::make_shared<dataset>(testing::sparse_samples(12, 1))};
  for (const auto& samples : sets) {
    const std::size_t room = room_for_entries(*samples, 4);
    local_batches own(samples, 4, room);
    for (const ids& which : {ids{3, 0, 11, 7}, ids{5, 6}, ids{1, 2, 3, 4}}) {
      batch sent;
      shape_batch(*samples, 4, room, sent);
      fill_batch(*samples, which, sent);
      const auto cut = own.cut(8, 2, which);
      EXPECT_EQ(cut->number, 8U);
      EXPECT_EQ(cut->epoch, 2U);
      EXPECT_EQ(cut->size, which.size());
      EXPECT_EQ(bytes_of(*cut), bytes_of(sent));
      EXPECT_THAT(cut->features.values(), ElementsAreArray(sent.features.values()));
      EXPECT_THAT(cut->columns.values<std::int32_t>(), ElementsAreArray(sent.columns.values<std::int32_t>()));
      EXPECT_THAT(cut->values.values(), ElementsAreArray(sent.values.values()));
      EXPECT_THAT(cut->labels.values<std::int32_t>(), ElementsAreArray(sent.labels.values<std::int32_t>()));
    }
  }
}

TEST(LocalBatches, KeepABatchThatSomebodyHolds) {
  local_batches own(samples_in_rows(), 4, 0);
  const auto first = own.cut(0, 0, ids{0, 1, 2, 3});
  const float before = first->features.values()[0];
  own.cut(1, 0, ids{8, 9, 10, 11});
  EXPECT_EQ(first->features.values()[0], before);
}

/// The numbers come from another process.
TEST(LocalBatches, RefuseNumbersThatMakeNoBatch) {
  local_batches own(samples_in_rows(), 4, 0);
  const auto sparse = std::make_shared<dataset>(sparse_features{9, {0, 3, 3, 4}, {0, 4, 8, 2}, {1, 2, 3, 4}},
                                                std::vector<std::int32_t>{0, 1, 1}, 2);
  local_batches own_sparse(sparse, 3, max_nonzeros(*sparse, 3));
  const auto cut = [](local_batches& from, const ids& which) {
    return [&, which] { from.cut(5, 0, which); };
  };
  testing::expect_refused({
      {"no samples", cut(own, {}), "batch 5: expected 1 to 4 samples, found 0"},
      {"too many samples", cut(own, {0, 1, 2, 3, 4}), "found 5"},
      {"a sample that is not there", cut(own, {0, 12}),
       "batch 5: expected samples of the 12 that there are, found 12"},
      {"the longest row three times", cut(own_sparse, {0, 0, 0}),
       "expected rows of at most 4 entries together, found 9"},
      {"no set", [] { local_batches(nullptr, 4, 0); }, "there are no samples"},
  });
}

} // namespace
} // namespace mailgrad
