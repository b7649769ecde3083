#include <mailgrad/data/files.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace ::testing;

/// The names of the files that are expected.
struct expected_files {
  file_format format = file_format::automatic;
  std::string train{}, train_labels{}, test{}, test_labels{}, class_names{};
};

class Files : public ::testing::Test {
protected:
  void write(const std::vector<std::string>& names, std::string_view bytes = "") const {
    for (const std::string& name : names) {
      std::filesystem::create_directories((folder.path() / name).parent_path());
      folder.write(name, bytes);
    }
  }
  data_files find(const std::string& name = "", const file_options& options = {}) const {
    return find_files((folder.path() / name).string(), options);
  }
  std::string why(const std::string& name = "", const file_options& options = {}) const {
    return complaint([&] { find(name, options); });
  }
  /// In the folder, or for one of its files.
  void expect(const expected_files& expected, const std::string& name = "") const {
    const data_files files = find(name);
    EXPECT_EQ(files.format, expected.format) << name;
    EXPECT_EQ(files.train.front().filename(), expected.train);
    EXPECT_EQ(files.train_labels.filename(), expected.train_labels);
    EXPECT_EQ(files.test.filename(), expected.test);
    EXPECT_EQ(files.test_labels.filename(), expected.test_labels);
    EXPECT_EQ(files.class_names.filename(), expected.class_names);
  }

  const scratch_folder folder;
};

const std::vector<std::string> quartet{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                       "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

TEST_F(Files, AreAnIdxQuartetPlainOrPacked) {
  write(quartet);
  expect({file_format::idx, quartet[0], quartet[1], quartet[2], quartet[3]});
  EXPECT_EQ(find().name, folder.path().filename());
  EXPECT_EQ(find(quartet[2], {.format = file_format::idx}).train, find().train);
  for (const std::string& name : quartet) {
    std::filesystem::remove(folder.path() / name);
    write({name + ".gz"});
  }
  expect({file_format::idx, quartet[0] + ".gz", quartet[1] + ".gz", quartet[2] + ".gz", quartet[3] + ".gz"});
  EXPECT_EQ(find(quartet[2] + ".gz", {.format = file_format::idx}).train, find().train);
}

TEST_F(Files, AreCifarRecords) {
  write({"train.bin.gz", "test.bin", "labels.txt", "train-index.txt.gz"});
  expect({.format = file_format::cifar,
          .train = "train.bin.gz",
          .test = "test.bin",
          .class_names = "labels.txt"});
  EXPECT_EQ(find().label_bytes, 1U);
}

TEST_F(Files, HaveTwoLabelsARecordWhereTheNamesAreThoseOfCifar100) {
  write({"TRAIN.BIN", "test.bin", "coarse_label_names.txt", "Fine_Label_Names.txt"});
  for (const char* name : {"", "TRAIN.BIN"}) {
    expect({.format = file_format::cifar,
            .train = "TRAIN.BIN",
            .test = *name == 0 ? "test.bin" : "", // a file that is named is all
            .class_names = "Fine_Label_Names.txt"},
           name);
    EXPECT_EQ(find(name).label_bytes, 2U);
  }
}

/// Some archives have a point in these names, and some systems write names in capitals.
TEST_F(Files, AreAnIdxQuartetHoweverItsNamesAreWritten) {
  const std::vector<std::string> odd{"train-images.idx3-ubyte", "Train-Labels-Idx1-UByte",
                                     "T10K-IMAGES.IDX3-UBYTE.GZ", "t10k-labels-idx1-ubyte"};
  write(odd);
  expect({file_format::idx, odd[0], odd[1], odd[2], odd[3]});
}

TEST_F(Files, NameTheCompanionsThatAnIdxSetLacks) {
  write({"train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"});
  const std::string lacks = "found no train-labels-idx1-ubyte and no t10k-labels-idx1-ubyte";
  EXPECT_THAT(why(), EndsWith(lacks));
  EXPECT_THAT(why("train-images-idx3-ubyte", {.format = file_format::idx}), EndsWith(lacks));
}

/// Where names differ by their capitals alone, each is itself.
TEST_F(Files, AreFirstThoseOfTheNameAsItIsWritten) {
  write({"A.tra", "a.tra", "A.tes", "a.tes"});
  EXPECT_EQ(find("a.tra").test.filename(), "a.tes");
  EXPECT_EQ(find("A.tra").test.filename(), "A.tes");
}

TEST_F(Files, AreFoundInTheirFolderAndByTheirTrainingFile) {
  struct row {
    const char *train, *test;
    file_format format;
  };
  for (const auto& [train, test, format] : {row{"a9a", "a9a.t", file_format::libsvm},
                                            {"x.gz", "x.t.gz", file_format::libsvm},
                                            {"m.txt.train", "m.txt.test", file_format::libsvm},
                                            {"o.tra", "o.tes", file_format::csv},
                                            {"O.TRA", "O.TES", file_format::csv},
                                            {"TRAIN.CSV", "Test.csv.GZ", file_format::csv},
                                            {"A9A.GZ", "A9A.T", file_format::libsvm},
                                            {"train.csv", "test.csv.gz", file_format::csv}}) {
    write({"README"});
    write({train, test}, "1 1:1\n");
    for (const char* name : {"", train}) expect({.format = format, .train = train, .test = test}, name);
    for (const char* name : {train, test}) std::filesystem::remove(folder.path() / name);
  }
}

TEST_F(Files, AreASingleOneToBeCut) {
  write({"letter.names", "letter.data"});
  EXPECT_EQ(find().format, file_format::csv);
  EXPECT_TRUE(find().test.empty());
  EXPECT_EQ(find("letter.data").name, "letter.data");
}

TEST_F(Files, LeaveTheirPartnerAsideWhereAFractionIsAsked) {
  write({"a", "a.t"}, "1 1:1\n");
  EXPECT_TRUE(find("a", {.train_fraction = 0.5}).test.empty());
}

TEST_F(Files, AreSearchedByName) {
  write(quartet);
  const data_files files =
      find_files(folder.path().filename().string(), {.search = {folder.path().parent_path()}});
  EXPECT_EQ(files.format, file_format::idx);
  EXPECT_EQ(files.name, folder.path().filename());
}

TEST_F(Files, SayWhatWasLookedForAndWhere) {
  const file_options elsewhere{.search = {"/a", "/b"}};
  EXPECT_EQ(complaint([&] { find_files("fashion-minst", elsewhere); }),
            "'fashion-minst': expected a data set, found no such file or folder; looked for that name in /a, "
            "/b, too");
  EXPECT_THAT(complaint([&] { find_files("fashion-mnist", elsewhere); }),
              HasSubstr("Debian's package dataset-fashion-mnist"));
  write({"movies.dat"});
  EXPECT_THAT(why(), HasSubstr("train.bin and test.bin"));
  std::filesystem::remove(folder.path() / "movies.dat");
  write({"a.csv", "b.csv"});
  EXPECT_THAT(why(), HasSubstr("found 'a.csv' and 'b.csv'; name the file"));
}

TEST_F(Files, AreNotPartsForClasses) {
  write({"train/1.png", "test/1.png"});
  EXPECT_THAT(why(),
              HasSubstr("expected a folder for each class in train and in test, found pictures there"));
  write({"bus/1.png"});
  EXPECT_EQ(find().format, file_format::pictures) << "a train may be a class";
}

TEST_F(Files, SayThatATableLiesBesidePictures) {
  write({"cat/1.png", "dog/1.png", "readme.txt"});
  EXPECT_EQ(find().format, file_format::pictures);
  write({"sizes.csv"});
  EXPECT_THAT(why(), HasSubstr("expected one data set, found 'sizes.csv' and folders of pictures in '"));
}

TEST_F(Files, AreArraysOfNumpySideBySide) {
  write({"X_train.npy", "y_train.npy.gz", "x_test.npy", "y_test.npy", "notes.txt", "other.npy"});
  for (const char* name : {"", "X_train.npy"})
    expect({file_format::npy, "X_train.npy", "y_train.npy.gz", "x_test.npy", "y_test.npy"}, name);
  EXPECT_TRUE(find("X_train.npy", {.train_fraction = 0.5}).test.empty()) << "so it is to be cut";
  expect({file_format::npy, "x_test.npy", "y_test.npy"}, "x_test.npy");
  EXPECT_TRUE(find("other.npy").train_labels.empty());
}

TEST_F(Files, AreAllThatIsRead) {
  const auto ratings = folder.write("ratings.dat", "1::1::3::100\n2::1::4::200\n");
  const auto items = folder.write("movies.dat", "1::A Film (1999)::Drama\n");
  EXPECT_THAT(find_files(folder.path().string(), {}).all(), ElementsAre(ratings, items));
}

TEST(Sniff, KnowsNames) {
  const std::pair<const char*, file_format> all[] = {{"farm-ads-vect.gz", file_format::libsvm},
                                                     {"letter-recognition.data", file_format::csv},
                                                     {"train.bin.gz", file_format::cifar},
                                                     {"input.txt", file_format::text},
                                                     {"a9a", file_format::automatic},
                                                     {"X.CSV", file_format::csv},
                                                     {"x.Csv.Gz", file_format::csv},
                                                     {"LETTER.DATA", file_format::csv},
                                                     {"B.NPZ", file_format::npz},
                                                     {"RATINGS.DAT", file_format::ratings}};
  for (const auto& [name, format] : all) EXPECT_EQ(format_of_name(name), format) << name;
}

TEST(Sniff, KnowsContents) {
  const std::pair<std::string, file_format> all[] = {
      {idx_images(1, 1, 1, "x"), file_format::idx},
      {"-1 3:1 11:1 \n", file_format::libsvm},
      {"1\n0\n1 3:1\n", file_format::libsvm},
      {"1\t3:1\t11:1\n", file_format::libsvm},
      {"# of 2, 3 and 4\n#\n2 qid:7 1:0.5\n", file_format::libsvm},
      {"T,2,8\n", file_format::csv},
      {"a;b;c\n1;2;3\n", file_format::csv},
      {"First Citizen:\nBefore we proceed any further, hear me speak.\n", file_format::text},
      {"\ufeff-1 3:1 11:1 \r\n", file_format::libsvm},
      {"\ufeff1,T\r\n", file_format::csv},
      {std::string("\1\2\3\0\5", 5), file_format::automatic},
      {"", file_format::automatic}};
  const scratch_folder folder;
  for (const auto& [content, format] : all) {
    EXPECT_EQ(format_of_content(folder.write("x", content)), format) << content;
    EXPECT_EQ(format_of_content(folder.write("x.gz", gzipped(content))), format) << content;
  }
}

} // namespace
} // namespace mailgrad
