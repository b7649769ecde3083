#include <mailgrad/data/open.hpp>

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OpenData : public testing::Test {
protected:
  data_split open(const std::string& name = "", const open_options& options = {}) const {
    return open_data((folder.path() / name).string(), options);
  }
  std::string open_complaint(const std::string& name = "", const open_options& options = {}) const {
    return complaint([&] { open(name, options); });
  }
  void write_idx(const std::string& train_labels, const std::string& test_labels) const {
    folder.write("train-images-idx3-ubyte", idx_images(3, 1, 2, "abcdef"));
    folder.write("train-labels-idx1-ubyte", idx_labels(3, train_labels));
    folder.write("t10k-images-idx3-ubyte.gz", gzipped(idx_images(2, 1, 2, "ABCD")));
    folder.write("t10k-labels-idx1-ubyte.gz", gzipped(idx_labels(2, test_labels)));
  }

  scratch_folder folder;
};

const std::vector<float>& floats_of(const dataset& d) {
  return std::get<float_features>(d.features()).values;
}

TEST_F(OpenData, ReadsAnIdxQuartet) {
  write_idx({"\0\1\2", 3}, {"\2\1", 2});
  const data_split split = open();
  EXPECT_EQ(split.train.size(), 3U);
  EXPECT_EQ(split.test.size(), 2U);
  EXPECT_EQ(split.test.classes(), 3U);
  EXPECT_EQ(split.name, folder.path().filename());
}

TEST_F(OpenData, RefusesATestLabelThatTrainingDoesNotKnow) {
  write_idx({"\0\1\2", 3}, {"\2\3", 2});
  EXPECT_EQ(open_complaint(), "t10k-labels-idx1-ubyte.gz: offset 9: expected a label from 0 to 2, found 3");
}

TEST_F(OpenData, RefusesTestImagesOfAnotherSize) {
  write_idx({"\0\1\2", 3}, {"\2\1", 2});
  folder.write("t10k-images-idx3-ubyte.gz", gzipped(idx_images(2, 2, 1, "ABCD")));
  EXPECT_EQ(open_complaint(), "t10k-images-idx3-ubyte.gz: offset 8: expected images of 1x2x1, as "
                              "train-images-idx3-ubyte has, found 2x1x1");
}

TEST_F(OpenData, ReadsCifarRecordsWithTheirNames) {
  folder.write("train.bin", std::string("\0rgb\1RGB", 8));
  folder.write("test.bin", std::string("\1xyz", 4));
  folder.write("labels.txt", "apple\ncherry\ntomato\n");
  const data_split split = open("", {.record_dims = {1, 1, 3}});
  EXPECT_EQ(split.train.size(), 2U);
  EXPECT_EQ(split.train.classes(), 3U);
  EXPECT_THAT(split.class_names, ElementsAre("apple", "cherry", "tomato"));
}

TEST_F(OpenData, JoinsCifarRecordsOfSeveralFiles) {
  folder.write("data_batch_1.bin", std::string("\0rgb", 4));
  folder.write("data_batch_2.bin", std::string("\1RGB", 4));
  folder.write("test_batch.bin", std::string("\1xyz", 4));
  const data_split split = open("", {.record_dims = {1, 1, 3}});
  EXPECT_EQ(split.train.size(), 2U);
  EXPECT_EQ(split.train.classes(), 2U);
}

TEST_F(OpenData, SaysInWhichOfSeveralFilesALabelIsOutOfRange) {
  folder.write("data_batch_1.bin", std::string("\0rgb", 4));
  folder.write("data_batch_2.bin", std::string("\0RGB\x09xyz", 8));
  folder.write("test_batch.bin", std::string("\1xyz", 4));
  EXPECT_EQ(open_complaint("", {.record_dims = {1, 1, 3}}),
            "data_batch_2.bin: offset 4: expected a label from 0 to 0, found 9");
}

TEST_F(OpenData, DividesByTheLargestTrainingNumber) {
  folder.write("x.tra", "0,-4,1\n2,1,0\n");
  folder.write("x.tes", "8,4,1\n");
  EXPECT_THAT(floats_of(open().train), ElementsAre(0, -1, 0.5F, 0.25F));
  EXPECT_THAT(floats_of(open().test), ElementsAre(2, 1));
  EXPECT_THAT(floats_of(open("", {.scale = feature_scale::column_maximum}).train),
              ElementsAre(0, -1, 1, 0.25F));
  EXPECT_THAT(floats_of(open("", {.scale = feature_scale::none}).test), ElementsAre(8, 4));
}

TEST_F(OpenData, CutsAFileThatBringsNoTestSet) {
  folder.write("x.data", "A,1\nB,2\nA,1\nB,2\nC,50\n");
  const data_split split = open();
  EXPECT_EQ(split.train.size(), 4U);
  EXPECT_EQ(split.test.size(), 1U);
  EXPECT_EQ(split.train.classes(), 3U);
  EXPECT_THAT(split.class_names, ElementsAre("A", "B", "C"));
  open_options half;
  half.files.train_fraction = 0.6;
  EXPECT_EQ(open("x.data", half).train.size(), 3U);
}

TEST_F(OpenData, RefusesToCutASingleRow) {
  folder.write("x.data", "A,1\n");
  EXPECT_EQ(open_complaint(), "x.data: expected two rows or more to cut off a test set, found 1");
}

TEST_F(OpenData, TakesTheWidthOfASparseSetFromItsTrainingFile) {
  folder.write("x", "1 7:1\n0 1:1\n");
  folder.write("x.t", "1 2:1\n");
  EXPECT_EQ(open().test.sample_dims(), (shape{7}));
  EXPECT_EQ(open("", {.features = 9}).test.sample_dims(), (shape{9}));
  folder.write("x.t", "1 8:1\n");
  EXPECT_EQ(open_complaint(), "x.t: line 1: expected an index from 1 to 7, found '8'; --features N "
                              "(open_options::features) gives all rows N columns");
  EXPECT_EQ(open("", {.features = 8}).train.sample_dims(), (shape{8}));
  folder.write("y.csv", "1,2,a\n3,4,b\n");
  EXPECT_EQ(complaint([&] { open("y.csv", {.features = 8}); }),
            "y.csv: expected a libsvm file, as --features (open_options::features) is given, found another "
            "format, whose files show how wide they are");
}

/// Both parts count alike, and so does another process that is told how they were opened.
TEST_F(OpenData, CountsColumnsOfASparseSetFromZeroIfEitherPartDoes) {
  folder.write("x", "1 1:1\n0 3:1\n");
  folder.write("x.t", "1 0:1\n");
  const data_split split = open();
  EXPECT_EQ(split.train.sample_dims(), (shape{4}));
  EXPECT_EQ(std::get<sparse_features>(split.train.features()).columns, (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(std::get<sparse_features>(split.test.features()).columns, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(split.source->options.numbering, column_numbering::from_zero);
  folder.write("x.t", "1 2:1\n");
  EXPECT_EQ(open().source->options.numbering, column_numbering::from_one);
}

/// A file for a trained model counts as the one that it was trained on, even if it has no entry of column 0.
TEST_F(OpenData, CountsColumnsAsATrainedModelDoes) {
  folder.write("x", "1 2:1\n");
  open_options known{.features = 3, .known = known_data{{"0", "1"}}};
  known.known->counts_from_zero = true;
  EXPECT_EQ(std::get<sparse_features>(open("x", known).test.features()).columns,
            (std::vector<std::int32_t>{2}));
  known.known->counts_from_zero = false;
  EXPECT_EQ(std::get<sparse_features>(open("x", known).test.features()).columns,
            (std::vector<std::int32_t>{1}));
  folder.write("x", "1 0:1\n");
  EXPECT_EQ(complaint([&] { open("x", known); }), "x: line 1: expected an index from 1 to 3, found '0'");
}

TEST_F(OpenData, CutsATextIntoWindows) {
  folder.write("input.txt", std::string(90, 'a') + "bcdefghijk");
  const data_split split = open("", {.window = 4});
  EXPECT_TRUE(split.train.is_tokens());
  EXPECT_EQ(split.train.size(), 22U);
  EXPECT_EQ(split.test.size(), 2U);
  EXPECT_EQ(split.train.classes(), 11U);
  EXPECT_EQ(split.class_names.front(), "a");
  EXPECT_EQ(open("", {.window = 4, .stride = 1}).test.size(), 6U);
  EXPECT_EQ(open_complaint(), "input.txt: expected over 64 characters, the window, for training and for "
                              "testing, found 90 and 10");
}

TEST_F(OpenData, ReadsASingleFileByTheFormatItIsTold) {
  folder.write("odd", "1 2 3");
  EXPECT_TRUE(open("odd", {.files = {.format = file_format::text, .train_fraction = 0.5}, .window = 1})
                  .train.is_tokens());
}

TEST_F(OpenData, PredictsNumbersOfATableIfTold) {
  folder.write("train.csv", "1,10,0.5\n2,20,1\n");
  folder.write("test.csv", "4,5,-3\n");
  const data_split split = open("", {.task = label_kind::numbers});
  EXPECT_TRUE(split.train.has_targets());
  EXPECT_THAT(split.train.targets(), ElementsAre(0.5F, 1.0F));
  EXPECT_THAT(split.test.targets(), ElementsAre(-3.0F));
  EXPECT_TRUE(split.class_names.empty());
}

TEST_F(OpenData, PredictsNoNumbersWhereAFormatHasClasses) {
  folder.write("x.libsvm", "1 1:1\n2 1:1\n");
  EXPECT_THAT(complaint([&] { open("x.libsvm", {.task = label_kind::numbers}); }),
              HasSubstr("x.libsvm: expected numbers to predict, as a CSV file may have them, found classes"));
}

/// They were passed over in silence.
TEST_F(OpenData, RefusesOptionsOfOtherFormats) {
  folder.write("x.libsvm", "1 1:1\n2 1:1\n1 1:2\n2 1:3\n");
  folder.write("x.csv", "1,a\n2,b\n3,a\n4,b\n");
  const auto says = [&](const char* file, const open_options& o) {
    return complaint([&] { open(file, o); });
  };
  EXPECT_EQ(
      says("x.libsvm", {.csv = {.header = csv_header::present}}),
      "x.libsvm: expected data that fit the option --header (csv_options::header), for CSV, found another "
      "format");
  EXPECT_THAT(says("x.libsvm", {.csv = {.categories = {"1"}}}), HasSubstr("--categories"));
  EXPECT_THAT(says("x.libsvm", {.csv = {.missing = missing_values::drop}}), HasSubstr("--missing"));
  EXPECT_THAT(says("x.csv", {.window = 8}), HasSubstr("--window (open_options::window), for texts"));
  EXPECT_THAT(says("x.csv", {.ratings = {.order = rating_order::by_time}}), HasSubstr("--split"));
}

TEST_F(OpenData, SaysThatAFormatIsUnknown) {
  folder.write("odd", std::string("\1\2\0", 3));
  EXPECT_THAT(open_complaint("odd"),
              HasSubstr("expected IDX, CIFAR (*.bin), CSV, libsvm, ratings, arrays of numpy or UTF-8 text"));
}

TEST_F(OpenData, SaysWhatBecomesOfAFormatThatItDoesNotRead) {
  const auto refused = [this](std::string_view content, const std::string& says) {
    folder.write("some", std::string(content));
    EXPECT_THAT(open_complaint("some"), HasSubstr("some: expected a data set, found " + says));
  };
  refused("PAR1 and text PAR1", "a Parquet file; write it as CSV: ");
  refused("BZh9", "a file packed by bzip2 or xz; unpack it, or pack it by gzip");
  refused("\xFD"
          "7zXZ",
          "a file packed by bzip2 or xz");
  refused("PK\3\4 [Content_Types].xml",
          "a ZIP archive, or a workbook of Excel; unpack it, or save the sheet as CSV");
  refused("\x89PNG\r\n", "one picture; name the folder");
  refused("\xFF\xD8\xFF\xE0", "one picture; name the folder");
  refused("\xFF\xFEx", "a text in UTF-16 that is no CSV; write it in UTF-8");
}

TEST_F(OpenData, RefusesSenselessOptions) {
  open_options options;
  options.files.train_fraction = 1.0;
  EXPECT_THROW(open("x", options), std::invalid_argument);
  EXPECT_THROW(open("x", {.window = 0}), std::invalid_argument);
}

/// What a reader says of a file whose samples take `bytes`, with room for one byte less.
void expect_limit(const std::filesystem::path& file, std::uint64_t bytes, open_options options = {}) {
  options.limit.bytes = bytes;
  EXPECT_NO_THROW(open_data(file.string(), options)) << file;
  options.limit.bytes = bytes - 1;
  EXPECT_THAT(complaint([&] { open_data(file.string(), options); }),
              HasSubstr("of memory, found more; take a part of the file, or raise --data-limit"));
}

TEST_F(OpenData, LimitsTheMemoryOfSamplesWhateverTheirFormat) {
  std::string sparse, table, ratings, pictures;
  for (int i = 0; i < 100; ++i) {
    const std::string label = std::to_string(i % 2);
    sparse += label + " 1:1\n";
    table += "1,2," + label + "\n";
    ratings += label + "::1::3::100\n";
    pictures += static_cast<char>(i % 2) + std::string(3072, 'p');
  }
  expect_limit(folder.write("x.libsvm", gzipped(sparse)), 100 * (8 + 12)); // an entry and a row
  expect_limit(folder.write("x.csv", gzipped(table)), 100 * (2 + 1) * 4);
  expect_limit(folder.write("ratings.dat", gzipped(ratings)), 100 * 32);
  expect_limit(folder.write("x.txt", gzipped(std::string(1000, 'a'))), 4000, {.window = 8});
  expect_limit(folder.write("x.bin", gzipped(pictures)), 100 * 3072);
}

data_source sent(data_source s) {
  byte_archive_writer out;
  s.keep(out);
  byte_archive_reader in(out.bytes(), "source");
  data_source read;
  read.keep(in);
  in.require_end();
  return read;
}

std::string rows(int count) {
  std::string text = "width,colour,noise,kind\n";
  for (int i = 0; i < count; ++i)
    text += std::to_string(i % 7) + (i % 3 == 0 ? ",red," : ",blue,") + (i == 4 ? "" : std::to_string(i)) +
            (i % 2 == 0 ? ",a\n" : ",b\n");
  return text;
}

/// Whatever shapes the samples travels: a process that opens the file by what it was told has the same ones.
TEST(DataSource, OpensTheSameSamplesElsewhere) {
  const scratch_folder folder;
  const std::string csv = folder.write("rows.csv", rows(40)).string();
  const std::string text = folder.write("words.txt", std::string(400, 'a') + std::string(400, 'b')).string();
  std::vector<std::pair<std::string, std::function<void(open_options&)>>> kinds{
      {csv, [](open_options& o) { o.csv.missing = missing_values::mean; }},
      {csv,
       [](open_options& o) {
         o.csv.missing = missing_values::drop;
         o.csv.left_out = {"noise"};
         o.csv.label = csv_label::named;
         o.csv.label_column = "colour";
         o.seed = 9;
       }},
      {csv,
       [](open_options& o) {
         o.csv.missing = missing_values::drop;
         o.csv.categories = {"width"};
         o.csv.delimiter = ',';
         o.csv.decimal = '.';
         o.scale = feature_scale::none;
         o.files.train_fraction = 0.5;
         o.validation = 0.25;
       }},
      {text,
       [](open_options& o) {
         o.window = 7;
         o.stride = 3;
       }},
  };
  kinds.push_back({folder.write("rows.libsvm", "1 1:1\n0 2:1\n1 1:2\n0 3:1\n").string(), [](open_options& o) {
                     o.features = 9;
                     o.numbering = column_numbering::from_zero;
                   }});
  std::string last;
  for (const auto& [path, choose] : kinds) {
    open_options options;
    choose(options);
    const data_split here = open_data(path, options);
    ASSERT_TRUE(here.source);
    EXPECT_EQ(here.source->path, path);
    const data_split there = open_data(path, sent(*here.source).options);
    EXPECT_EQ(digest_of(there.train), digest_of(here.train));
    EXPECT_NE(digest_of(here.train), last) << "the options make a difference";
    last = digest_of(here.train);
  }
}

TEST(DataSource, IsNotToldOfDataForATrainedModel) {
  const scratch_folder folder;
  const std::string text = folder.write("words.txt", std::string(200, 'a')).string();
  open_options options;
  options.known = known_data{{"a"}, {}, {}};
  EXPECT_FALSE(open_data(text, options).source) << "its options hold what a model knows";
}

TEST(DataSource, RefusesAnOptionThatIsNone) {
  byte_archive_writer out;
  data_source s;
  s.options.files.format = static_cast<file_format>(77);
  s.keep(out);
  byte_archive_reader in(out.bytes(), "source");
  data_source read;
  EXPECT_THROW(read.keep(in), archive_error);
}

} // namespace
} // namespace mailgrad
