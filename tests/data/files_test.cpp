#include <mailgrad/data/files.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

data_files find(const scratch_folder& folder, const std::string& name = "",
                const file_options& options = {}) {
  return find_files((folder.path() / name).string(), options);
}

void write_quartet(const scratch_folder& folder, const std::string& suffix) {
  for (const char* part : {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"})
    folder.write(part + std::string("-ubyte") + suffix, "");
}

TEST(Files, AreAnIdxQuartetPlainOrPacked) {
  for (const char* suffix : {"", ".gz"}) {
    const scratch_folder folder;
    write_quartet(folder, suffix);
    const data_files files = find(folder);
    EXPECT_EQ(files.format, file_format::idx);
    EXPECT_EQ(files.train.front().filename(), "train-images-idx3-ubyte" + std::string(suffix));
    EXPECT_EQ(files.train_labels.filename(), "train-labels-idx1-ubyte" + std::string(suffix));
    EXPECT_EQ(files.test.filename(), "t10k-images-idx3-ubyte" + std::string(suffix));
    EXPECT_EQ(files.test_labels.filename(), "t10k-labels-idx1-ubyte" + std::string(suffix));
    EXPECT_EQ(files.name, folder.path().filename());
    EXPECT_EQ(
        find(folder, "t10k-images-idx3-ubyte" + std::string(suffix), {.format = file_format::idx}).train,
        files.train);
  }
}

TEST(Files, AreCifarRecords) {
  const scratch_folder folder;
  folder.write("train.bin.gz", "");
  folder.write("test.bin", "");
  folder.write("labels.txt", "a\n");
  folder.write("train-index.txt.gz", "");
  const data_files files = find(folder);
  EXPECT_EQ(files.format, file_format::cifar);
  EXPECT_EQ(files.train.front().filename(), "train.bin.gz");
  EXPECT_EQ(files.test.filename(), "test.bin");
  EXPECT_EQ(files.class_names.filename(), "labels.txt");
  EXPECT_EQ(files.label_bytes, 1U);
}

TEST(Files, HaveTwoLabelsARecordWhereTheNamesAreThoseOfCifar100) {
  const scratch_folder folder;
  for (const char* name : {"TRAIN.BIN", "test.bin", "coarse_label_names.txt", "Fine_Label_Names.txt"})
    folder.write(name, "");
  for (const char* name : {"", "TRAIN.BIN"}) {
    const data_files files = find(folder, name);
    EXPECT_EQ(files.train.front().filename(), "TRAIN.BIN");
    EXPECT_EQ(files.class_names.filename(), "Fine_Label_Names.txt");
    EXPECT_EQ(files.label_bytes, 2U);
  }
}

TEST(Files, AreCifarRecordsInSeveralFiles) {
  const scratch_folder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", "batches.meta.txt"})
    folder.write(name, "");
  const data_files files = find(folder);
  EXPECT_EQ(files.train.size(), 2U);
  EXPECT_EQ(files.test.filename(), "test_batch.bin");
  EXPECT_EQ(files.class_names.filename(), "batches.meta.txt");
}

/// Some archives have a point in these names, and some systems write names in capitals.
TEST(Files, AreAnIdxQuartetHoweverItsNamesAreWritten) {
  const scratch_folder folder;
  for (const char* name : {"train-images.idx3-ubyte", "Train-Labels-Idx1-UByte", "T10K-IMAGES.IDX3-UBYTE.GZ",
                           "t10k-labels-idx1-ubyte"})
    folder.write(name, "");
  const data_files files = find(folder);
  EXPECT_EQ(files.format, file_format::idx);
  EXPECT_EQ(files.train.front().filename(), "train-images.idx3-ubyte");
  EXPECT_EQ(files.train_labels.filename(), "Train-Labels-Idx1-UByte");
  EXPECT_EQ(files.test.filename(), "T10K-IMAGES.IDX3-UBYTE.GZ");
}

TEST(Files, NameTheCompanionsThatAnIdxSetLacks) {
  const scratch_folder folder;
  for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"}) folder.write(name, "");
  const std::string lacks = "found no train-labels-idx1-ubyte and no t10k-labels-idx1-ubyte";
  EXPECT_THAT(complaint([&] { find(folder); }), EndsWith(lacks));
  EXPECT_THAT(complaint([&] { find(folder, "train-images-idx3-ubyte", {.format = file_format::idx}); }),
              EndsWith(lacks));
}

/// Where names differ by their capitals alone, each is itself.
TEST(Files, AreFirstThoseOfTheNameAsItIsWritten) {
  const scratch_folder folder;
  for (const char* name : {"A.tra", "a.tra", "A.tes", "a.tes"}) folder.write(name, "");
  EXPECT_EQ(find(folder, "a.tra").test.filename(), "a.tes");
  EXPECT_EQ(find(folder, "A.tra").test.filename(), "A.tes");
}

struct pair_case {
  const char* train;
  const char* test;
  file_format format;
};

class FilePair : public testing::TestWithParam<pair_case> {};

TEST_P(FilePair, IsFoundInItsFolderAndByItsTrainingFile) {
  const scratch_folder folder;
  folder.write("README", "");
  folder.write(GetParam().train, "1 1:1\n");
  folder.write(GetParam().test, "1 1:1\n");
  for (const char* name : {"", GetParam().train}) {
    const data_files files = find(folder, name);
    EXPECT_EQ(files.format, GetParam().format);
    EXPECT_EQ(files.train.front().filename(), GetParam().train);
    EXPECT_EQ(files.test.filename(), GetParam().test);
  }
}

INSTANTIATE_TEST_SUITE_P(Names, FilePair,
                         testing::Values(pair_case{"a9a", "a9a.t", file_format::libsvm},
                                         pair_case{"x.gz", "x.t.gz", file_format::libsvm},
                                         pair_case{"m.txt.train", "m.txt.test", file_format::libsvm},
                                         pair_case{"o.tra", "o.tes", file_format::csv},
                                         pair_case{"O.TRA", "O.TES", file_format::csv},
                                         pair_case{"TRAIN.CSV", "Test.csv.GZ", file_format::csv},
                                         pair_case{"A9A.GZ", "A9A.T", file_format::libsvm},
                                         pair_case{"train.csv", "test.csv.gz", file_format::csv}));

TEST(Files, AreASingleOneToBeCut) {
  const scratch_folder folder;
  folder.write("letter.names", "");
  folder.write("letter.data", "");
  EXPECT_EQ(find(folder).format, file_format::csv);
  EXPECT_TRUE(find(folder).test.empty());
  EXPECT_EQ(find(folder, "letter.data").name, "letter.data");
}

TEST(Files, LeaveTheirPartnerAsideWhereAFractionIsAsked) {
  const scratch_folder folder;
  folder.write("a", "1 1:1\n");
  folder.write("a.t", "1 1:1\n");
  EXPECT_TRUE(find(folder, "a", {.train_fraction = 0.5}).test.empty());
}

TEST(Files, AreSearchedByName) {
  const scratch_folder folder;
  write_quartet(folder, "");
  const data_files files =
      find_files(folder.path().filename().string(), {.search = {folder.path().parent_path()}});
  EXPECT_EQ(files.format, file_format::idx);
  EXPECT_EQ(files.name, folder.path().filename());
}

TEST(Files, SayWhereANameWasLookedUp) {
  EXPECT_EQ(complaint([] {
              find_files("fashion-minst", {.search = {"/a", "/b"}});
            }),
            "'fashion-minst': expected a data set, found no such file or folder; looked for that name in /a, "
            "/b, too");
}

TEST(Files, SayWhichPackageBringsThem) {
  EXPECT_THAT(complaint([] { find_files("fashion-mnist", {.search = {"/a"}}); }),
              HasSubstr("Debian's package dataset-fashion-mnist"));
}

TEST(Files, SayWhatWasLookedForInAFolder) {
  const scratch_folder folder;
  folder.write("movies.dat", "");
  EXPECT_THAT(complaint([&] { find(folder); }), HasSubstr("train.bin and test.bin"));
}

TEST(Files, SayThatThereAreSeveralSets) {
  const scratch_folder folder;
  folder.write("a.csv", "");
  folder.write("b.csv", "");
  EXPECT_THAT(complaint([&] { find(folder); }), HasSubstr("found 'a.csv' and 'b.csv'; name the file"));
}

void write_pictures(const scratch_folder& folder, std::initializer_list<const char*> groups) {
  for (const char* group : groups) {
    std::filesystem::create_directories(folder.path() / group);
    folder.write(std::string(group) + "/1.png", "");
  }
}

TEST(Files, AreNotPartsForClasses) {
  const scratch_folder folder;
  write_pictures(folder, {"train", "test"});
  EXPECT_THAT(complaint([&] { find(folder); }),
              HasSubstr("expected a folder for each class in train and in test, found pictures there"));
  write_pictures(folder, {"bus"});
  EXPECT_EQ(find(folder).format, file_format::pictures) << "a train may be a class";
}

TEST(Files, SayThatATableLiesBesidePictures) {
  const scratch_folder folder;
  write_pictures(folder, {"cat", "dog"});
  folder.write("readme.txt", "");
  EXPECT_EQ(find(folder).format, file_format::pictures);
  folder.write("sizes.csv", "");
  EXPECT_THAT(complaint([&] { find(folder); }),
              HasSubstr("expected one data set, found 'sizes.csv' and folders of pictures in '"));
}

TEST(Files, AreArraysOfNumpySideBySide) {
  const scratch_folder folder;
  for (const char* name :
       {"X_train.npy", "y_train.npy.gz", "x_test.npy", "y_test.npy", "notes.txt", "other.npy"})
    folder.write(name, "");
  for (const char* name : {"", "X_train.npy"}) {
    const data_files files = find(folder, name);
    EXPECT_EQ(files.format, file_format::npy);
    EXPECT_EQ(files.train.front().filename(), "X_train.npy");
    EXPECT_EQ(files.train_labels.filename(), "y_train.npy.gz");
    EXPECT_EQ(files.test.filename(), "x_test.npy");
    EXPECT_EQ(files.test_labels.filename(), "y_test.npy");
  }
  EXPECT_TRUE(find(folder, "X_train.npy", {.train_fraction = 0.5}).test.empty()) << "so it is to be cut";
  const data_files test = find(folder, "x_test.npy");
  EXPECT_EQ(test.train.front().filename(), "x_test.npy");
  EXPECT_EQ(test.train_labels.filename(), "y_test.npy");
  EXPECT_TRUE(test.test.empty());
  EXPECT_TRUE(find(folder, "other.npy").train_labels.empty());
}

TEST(Files, AreAllThatIsRead) {
  const scratch_folder folder;
  const auto ratings = folder.write("ratings.dat", "1::1::3::100\n2::1::4::200\n");
  const auto items = folder.write("movies.dat", "1::A Film (1999)::Drama\n");
  EXPECT_THAT(find_files(folder.path().string(), {}).all(), testing::ElementsAre(ratings, items));
}

file_format sniff(std::string_view content) {
  const scratch_folder folder;
  EXPECT_EQ(format_of_content(folder.write("x.gz", gzipped(content))),
            format_of_content(folder.write("x", content)));
  return format_of_content(folder.path() / "x");
}

TEST(Sniff, KnowsNames) {
  EXPECT_EQ(format_of_name("farm-ads-vect.gz"), file_format::libsvm);
  EXPECT_EQ(format_of_name("letter-recognition.data"), file_format::csv);
  EXPECT_EQ(format_of_name("train.bin.gz"), file_format::cifar);
  EXPECT_EQ(format_of_name("input.txt"), file_format::text);
  EXPECT_EQ(format_of_name("a9a"), file_format::automatic);
  for (const char* name : {"X.CSV", "x.Csv.Gz", "LETTER.DATA"})
    EXPECT_EQ(format_of_name(name), file_format::csv) << name;
  EXPECT_EQ(format_of_name("B.NPZ"), file_format::npz);
  EXPECT_EQ(format_of_name("RATINGS.DAT"), file_format::ratings);
}

TEST(Sniff, KnowsContents) {
  EXPECT_EQ(sniff(idx_images(1, 1, 1, "x")), file_format::idx);
  EXPECT_EQ(sniff("-1 3:1 11:1 \n"), file_format::libsvm);
  EXPECT_EQ(sniff("1\n0\n1 3:1\n"), file_format::libsvm);
  EXPECT_EQ(sniff("1\t3:1\t11:1\n"), file_format::libsvm);
  EXPECT_EQ(sniff("# of 2, 3 and 4\n#\n2 qid:7 1:0.5\n"), file_format::libsvm);
  EXPECT_EQ(sniff("T,2,8\n"), file_format::csv);
  EXPECT_EQ(sniff("a;b;c\n1;2;3\n"), file_format::csv);
  EXPECT_EQ(sniff("First Citizen:\nBefore we proceed any further, hear me speak.\n"), file_format::text);
  EXPECT_EQ(sniff("\ufeff-1 3:1 11:1 \r\n"), file_format::libsvm);
  EXPECT_EQ(sniff("\ufeff1,T\r\n"), file_format::csv);
  EXPECT_EQ(sniff(std::string("\1\2\3\0\5", 5)), file_format::automatic);
  EXPECT_EQ(sniff(""), file_format::automatic);
}

} // namespace
} // namespace mailgrad
