#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>
#include <zip.h>

#include <cmath>
#include <random>

namespace mailgrad {
namespace {

using namespace ::testing;

class OpenData : public ::testing::Test {
protected:
  data_split open(const std::string& name = "", const open_options& options = {}) const {
    return open_data((folder.path() / name).string(), options);
  }
  std::string open_complaint(const std::string& name = "", const open_options& options = {}) const {
    return complaint([&] { open(name, options); });
  }

  const scratch_folder folder;
};

const std::vector<float>& floats_of(const dataset& d) {
  return std::get<float_features>(d.features()).values;
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
  EXPECT_EQ(open("x.data", {.files = {.train_fraction = 0.6}}).train.size(), 3U);
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
  EXPECT_EQ(open_complaint("y.csv", {.features = 8}),
            "y.csv: expected a libsvm file, as --features (open_options::features) is given, found another "
            "format, whose files show how wide they are");
}

const std::vector<std::int32_t>& columns_of(const dataset& d) {
  return std::get<sparse_features>(d.features()).columns;
}

/// Both parts count alike, and so does another process that is told how they were opened.
TEST_F(OpenData, CountsColumnsOfASparseSetFromZeroIfEitherPartDoes) {
  folder.write("x", "1 1:1\n0 3:1\n");
  folder.write("x.t", "1 0:1\n");
  const data_split split = open();
  EXPECT_EQ(split.train.sample_dims(), (shape{4}));
  EXPECT_THAT(columns_of(split.train), ElementsAre(1, 3));
  EXPECT_THAT(columns_of(split.test), ElementsAre(0));
  EXPECT_EQ(split.source->options.numbering, column_numbering::from_zero);
  folder.write("x.t", "1 2:1\n");
  EXPECT_EQ(open().source->options.numbering, column_numbering::from_one);
}

/// A file for a trained model counts as the one that it was trained on, even if it has no entry of column 0.
TEST_F(OpenData, CountsColumnsAsATrainedModelDoes) {
  folder.write("x", "1 2:1\n");
  open_options known{.features = 3, .known = known_data{{"0", "1"}}};
  known.known->counts_from_zero = true;
  EXPECT_THAT(columns_of(open("x", known).test), ElementsAre(2));
  known.known->counts_from_zero = false;
  EXPECT_THAT(columns_of(open("x", known).test), ElementsAre(1));
  folder.write("x", "1 0:1\n");
  EXPECT_EQ(open_complaint("x", known), "x: line 1: expected an index from 1 to 3, found '0'");
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
  EXPECT_EQ(split.reading->task_why, "--task says so");
  EXPECT_THAT(split.train.targets(), ElementsAre(0.5F, 1.0F));
  EXPECT_THAT(split.test.targets(), ElementsAre(-3.0F));
  EXPECT_TRUE(split.class_names.empty());
}

TEST_F(OpenData, PredictsNoNumbersWhereAFormatHasClasses) {
  folder.write("x.libsvm", "1 1:1\n2 1:1\n");
  EXPECT_THAT(open_complaint("x.libsvm", {.task = label_kind::numbers}),
              HasSubstr("x.libsvm: expected numbers to predict, as a CSV file may have them, found classes"));
}

/// They were passed over in silence.
TEST_F(OpenData, RefusesOptionsOfOtherFormats) {
  folder.write("x.libsvm", "1 1:1\n2 1:1\n1 1:2\n2 1:3\n");
  folder.write("x.csv", "1,a\n2,b\n3,a\n4,b\n");
  EXPECT_EQ(
      open_complaint("x.libsvm", {.csv = {.header = csv_header::present}}),
      "x.libsvm: expected data that fit the option --header (csv_options::header), for CSV, found another "
      "format");
  EXPECT_THAT(open_complaint("x.libsvm", {.csv = {.categories = {"1"}}}), HasSubstr("--categories"));
  EXPECT_THAT(open_complaint("x.libsvm", {.csv = {.missing = missing_values::drop}}), HasSubstr("--missing"));
  EXPECT_THAT(open_complaint("x.csv", {.window = 8}),
              HasSubstr("--window (open_options::window), for texts"));
  EXPECT_THAT(open_complaint("x.csv", {.ratings = {.order = rating_order::by_time}}), HasSubstr("--split"));
}

TEST_F(OpenData, SaysWhatBecomesOfAFormatThatItDoesNotRead) {
  const std::pair<std::string, const char*> all[] = {
      {"PAR1 and text PAR1", "found a Parquet file; write it as CSV: "},
      {"BZh9", "found a file packed by bzip2 or xz; unpack it, or pack it by gzip"},
      {"\xFD"
       "7zXZ",
       "found a file packed by bzip2 or xz"},
      {"PK\3\4 [Content_Types].xml",
       "found a ZIP archive, or a workbook of Excel; unpack it, or save the sheet as CSV"},
      {"\x89PNG\r\n", "found one picture; name the folder"},
      {"\xFF\xD8\xFF\xE0", "found one picture; name the folder"},
      {"\xFF\xFEx", "found a text in UTF-16 that is no CSV; write it in UTF-8"}};
  for (const auto& [content, found] : all) {
    folder.write("some", content);
    EXPECT_THAT(open_complaint("some"), HasSubstr(std::string("some: expected a data set, ") + found));
  }
  folder.write("odd", std::string("\1\2\0", 3));
  EXPECT_THAT(open_complaint("odd"),
              HasSubstr("expected IDX, CIFAR (*.bin), CSV, libsvm, ratings, arrays of numpy or UTF-8 text"));
}

TEST_F(OpenData, RefusesSenselessOptions) {
  EXPECT_THROW(open("x", {.files = {.train_fraction = 1.0}}), std::invalid_argument);
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
  const std::string svm = folder.write("rows.libsvm", "1 1:1\n0 2:1\n1 1:2\n0 3:1\n").string();
  const std::pair<std::string, open_options> kinds[] = {
      {csv, {.csv = {.missing = missing_values::mean}}},
      {csv,
       {.csv = {.label = csv_label::named,
                .label_column = "colour",
                .missing = missing_values::drop,
                .left_out = {"noise"}},
        .seed = 9}},
      {csv,
       {.files = {.train_fraction = 0.5},
        .csv = {.delimiter = ',', .decimal = '.', .missing = missing_values::drop, .categories = {"width"}},
        .scale = feature_scale::none,
        .validation = 0.25}},
      {text, {.window = 7, .stride = 3}},
      {svm, {.features = 9, .numbering = column_numbering::from_zero}}};
  std::string last;
  for (const auto& [path, options] : kinds) {
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
  EXPECT_FALSE(open_data(text, {.known = known_data{{"a"}, {}, {}}}).source)
      << "its options hold what a model knows";
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

/// Cuts `bytes`, flips bits of it, or writes another byte, digit or separator somewhere.
std::string damaged(std::string bytes, std::mt19937& random) {
  constexpr std::string_view spice{"0123456789:,.-+ \n\r\t#\"en\0\xff\x80", 26};
  const int wounds = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < wounds && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    const auto wound = random() % 5;
    if (wound == 0) bytes.resize(at);
    if (wound == 1) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    if (wound == 2) bytes[at] = spice[random() % spice.size()];
    if (wound == 3) bytes.insert(at, 1, spice[random() % spice.size()]);
    if (wound == 4) bytes.erase(at, 1 + random() % 8);
  }
  return bytes;
}

struct damage_case {
  const char* name; ///< of the file to damage
  std::string bytes;
  open_options options;
  std::vector<std::pair<std::string, std::string>> companions;
};

std::vector<damage_case> damage_cases() {
  const std::string labels = idx_labels(4, {"\0\1\2\1", 4});
  const std::string images = idx_images(4, 2, 2, "abcdefghijklmnop");
  const std::vector<std::pair<std::string, std::string>> idx{{"train-images-idx3-ubyte", images},
                                                             {"train-labels-idx1-ubyte", labels},
                                                             {"t10k-images-idx3-ubyte", images},
                                                             {"t10k-labels-idx1-ubyte", labels}};
  open_options small;
  small.record_dims = {1, 2, 3};
  open_options windowed = small;
  windowed.window = 4;
  const std::string records = std::string("\0rRgGbB\1uvwxyz", 14) + std::string("\1......\0++++++", 14);
  const std::string csv = "a,b,class\n1,2.5,x\n-3,4e2,y\n5,\"6\",x\n7,8,y\n";
  const std::string svm = "+1 1:0.5 3:2 \n-1 2:-1e1 # remark\n-1\n+1 3:1 4:1 5:1\n";
  const std::string ratings = "1::22::8::1365029107\n1::333::7.5::136\n2::22::0::0\n";
  const std::string films = "022::To Be (1942)::Comedy|War\n333::A::Drama\n";
  const std::string prose =
      "To be, or not to be: that is the question. Na\u00efve \u20ac \U0001F600, is it not?";
  const std::string head = "\x93NUMPY\1" + std::string("\0A\0", 3);
  const std::string samples =
      head + "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2, 2), }  \n" + "abcdefghijklmnop";
  const std::string answers =
      head + "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }       \n" + "abab";
  const std::vector<std::pair<std::string, std::string>> arrays{{"y.npy", answers}};
  return {{"train-images-idx3-ubyte", images, small, idx},
          {"t10k-labels-idx1-ubyte", labels, small, idx},
          {"train-images-idx3-ubyte", gzipped(images), small, idx},
          {"x.bin", records, small, {}},
          {"x.bin", gzipped(records), small, {}},
          {"x.csv", csv, small, {}},
          {"x.csv", gzipped(csv), small, {}},
          {"x.libsvm", svm, small, {}},
          {"x.t", svm, small, {{"x", svm}}},
          {"x.libsvm", gzipped(svm), small, {}},
          {"ratings.dat", ratings, small, {{"movies.dat", films}}},
          {"movies.dat", films, small, {{"ratings.dat", ratings}}},
          {"x.txt", prose, windowed, {}},
          {"x.txt", gzipped(prose), windowed, {}},
          {"x", svm, small, {}},
          {"x.npy", samples, small, arrays},
          {"y.npy.gz", gzipped(answers), small, {{"x.npy", samples}}}};
}

TEST(Damage, EndsInADatasetOrInOneLine) {
  std::size_t read = 0, refused = 0, all = 0;
  for (const damage_case& c : damage_cases()) {
    const scratch_folder folder;
    for (const auto& [name, bytes] : c.companions) folder.write(name, bytes);
    const std::filesystem::path file = folder.write(c.name, c.bytes);
    const std::string at = (c.companions.empty() ? file : folder.path()).string();
    EXPECT_NO_THROW(open_data(at, c.options)) << c.name;
    for (const std::uint64_t seed : testing::slice_of(600)) {
      std::mt19937 random(seed);
      folder.write(c.name, damaged(c.bytes, random));
      ++all;
      try {
        const data_split split = open_data(at, c.options);
        EXPECT_GT(split.train.size(), 0U);
        EXPECT_LT(split.train.bytes() + split.test.bytes(), std::size_t{1} << 20);
        ++read;
      } catch (const file_error& e) {
        EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos) << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(20 * read, all);
  EXPECT_GT(3 * refused, all);
}

template <class T>
std::string npy(const std::string& type, const std::string& extents, const std::vector<T>& numbers) {
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + extents + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text +
         std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

class OpenArrays : public ::testing::Test {
protected:
  using entries = std::vector<std::pair<std::string, std::string>>;

  data_split open(const entries& all, const open_options& options = {}) const {
    const auto path = folder.path() / "x.npz";
    std::filesystem::remove(path);
    zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
    for (const auto& [name, bytes] : all)
      zip_file_add(archive, (name + ".npy").c_str(),
                   zip_source_buffer(archive, bytes.data(), bytes.size(), 0), 0);
    EXPECT_EQ(zip_close(archive), 0);
    return open_data(path.string(), options);
  }
  std::string array_complaint(const entries& all, const open_options& options = {}) const {
    return complaint([&] { open(all, options); });
  }
  const scratch_folder folder;
};

const std::string two_rows = npy<float>("<f4", "(2, 2)", {1, 2, 3, 4});
const std::string two_classes = npy<std::int64_t>("<i8", "(2,)", {7, 3});

TEST_F(OpenArrays, ReadsPicturesOfBytes) {
  const data_split split = open({{"x_train", npy<std::uint8_t>("|u1", "(2, 1, 2)", {0, 51, 102, 255})},
                                 {"y_train", npy<std::uint8_t>("|u1", "(2,)", {5, 4})},
                                 {"x_test", npy<std::uint8_t>("|u1", "(1, 1, 2)", {1, 2})},
                                 {"y_test", npy<std::uint8_t>("|u1", "(1,)", {5})}});
  EXPECT_EQ(split.train.sample_dims(), (shape{1, 2, 1})) << "a channel for those who convolve";
  EXPECT_THAT(split.train.labels(), ElementsAre(1, 0));
  EXPECT_THAT(split.test.labels(), ElementsAre(1));
  EXPECT_THAT(split.class_names, ElementsAre("4", "5"));
  EXPECT_THAT(split.divisors, ElementsAre(255));
}

/// Both parts are divided by the same, so the samples for training decide.
TEST_F(OpenArrays, DividesBytesOfTheTestAsTheTrainingSamples) {
  const data_split split = open({{"x_train", two_rows},
                                 {"y_train", two_classes},
                                 {"x_test", npy<std::uint8_t>("|u1", "(1, 2)", {5, 6})},
                                 {"y_test", npy<std::int32_t>("<i4", "(1,)", {7})}});
  EXPECT_EQ(std::get<byte_features>(split.test.features()).scale, 1);
  EXPECT_TRUE(split.divisors.empty());
}

TEST_F(OpenArrays, CutsASingleArray) {
  const data_split split = open({{"X", two_rows}, {"y", two_classes}});
  EXPECT_EQ(split.train.size(), 1U);
  EXPECT_EQ(split.test.size(), 1U);
  open_options known;
  known.known = known_data{{"7", "3"}, {2}};
  const data_split all = open({{"x", two_rows}, {"y", two_classes}}, known);
  EXPECT_THAT(floats_of(all.test), ElementsAre(0.5F, 1, 1.5F, 2));
  EXPECT_THAT(all.test.labels(), ElementsAre(0, 1)) << "classes keep their numbers";
}

TEST_F(OpenArrays, PassesOverArraysThatAreNoNumbersAndNoSamples) {
  const std::string names = npy<std::int32_t>("<U1", "(2,)", {97, 98});
  const data_split split = open({{"x", two_rows}, {"y", two_classes}, {"names", names}});
  EXPECT_THAT(split.remarks, Contains("x.npz: array 'names' holds no numbers, and is passed over"));
  EXPECT_THAT(array_complaint({{"x", two_rows}, {"y", names}}), HasSubstr("array 'y'"));
}

TEST_F(OpenArrays, RefusesArraysThatDoNotFit) {
  const std::string three_answers = npy<std::int32_t>("<i4", "(3,)", {1, 2, 3});
  EXPECT_EQ(array_complaint({{"data", two_rows}}),
            "x.npz: expected arrays x_train, y_train, x_test and y_test, or x and y, found neither");
  EXPECT_EQ(array_complaint({{"x", two_rows}}), "x.npz: expected an array 'y', found none");
  EXPECT_EQ(array_complaint({{"x", two_rows}, {"y", three_answers}}),
            "x.npz: arrays 'x' and 'y': 2 samples have 3 answers");
  EXPECT_THAT(array_complaint({{"x_train", two_rows},
                               {"y_train", two_classes},
                               {"x_test", npy<float>("<f4", "(1, 3)", {1, 2, 3})},
                               {"y_test", npy<std::int32_t>("<i4", "(1,)", {3})}}),
              HasSubstr("expected samples of 2 in x_test, as in x_train, found 3"));
}

/// The same arrays as files of their own, side by side.
class OpenArrayFiles : public OpenData {};

TEST_F(OpenArrayFiles, AreCutWithoutATestPart) {
  folder.write("X.npy", two_rows);
  folder.write("y.npy", npy<float>("<f4", "(2,)", {0.5F, 2}));
  const data_split split = open_data(folder.path().string());
  EXPECT_EQ(split.train.size(), 1U);
  EXPECT_EQ(split.test.size(), 1U);
  EXPECT_TRUE(split.train.has_targets());
  EXPECT_THAT(open_complaint("", {.limit = {15}}), HasSubstr("of memory, found more"));
  EXPECT_THAT(open_complaint("", {.task = label_kind::classes}),
              HasSubstr("y.npy: array 'y': number 0 is no whole number"));
}

TEST_F(OpenArrayFiles, AreRefusedByName) {
  folder.write("x.npy", two_rows);
  EXPECT_THAT(open_complaint(), HasSubstr("x.npy: expected answers beside the samples, in y.npy"));
  folder.write("y.npy", npy<std::int32_t>("<i4", "(3,)", {1, 2, 3}));
  EXPECT_EQ(open_complaint(), "x.npy: arrays 'x' and 'y': 2 samples have 3 answers");
  folder.write("y.npy", npy<std::int32_t>("|O", "(2,)", {1, 2}));
  EXPECT_THAT(open_complaint(), HasSubstr("y.npy: array 'y': expected numbers, found Python objects"));
  folder.write("y.npy", two_classes);
  folder.write("x_test.npy", npy<float>("<f4", "(1, 3)", {1, 2, 3}));
  EXPECT_THAT(open_complaint(), HasSubstr("x_test.npy: expected answers beside the samples"));
  folder.write("y_test.npy", npy<std::int32_t>("<i4", "(1,)", {3}));
  EXPECT_THAT(open_complaint(),
              HasSubstr("x_test.npy: expected samples of 2 in x_test, as in x_train, found 3"));
}

TEST_F(OpenArrays, LimitsItsMemory) {
  const entries all{{"x", two_rows}, {"y", two_classes}};
  EXPECT_NO_THROW(open(all, {.limit = {16}}));
  EXPECT_THAT(array_complaint(all, {.limit = {15}}), HasSubstr("of memory, found more"));
}

} // namespace
} // namespace mailgrad
