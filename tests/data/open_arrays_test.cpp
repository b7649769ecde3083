#include <mailgrad/data/open.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <zip.h>

#include <cmath>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string npy(const std::string& type, const std::string& extents, const std::vector<T>& numbers) {
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + extents + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text +
         std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

class OpenArrays : public testing::Test {
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
  static const std::vector<float>& floats_of(const dataset& d) {
    return std::get<float_features>(d.features()).values;
  }

  scratch_folder folder;
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

TEST_F(OpenArrays, TakesOtherNumbersAsTheyAre) {
  const data_split split = open({{"x_train", npy<double>("<f8", "(2, 2)", {0.5, 300, -7, 1})},
                                 {"y_train", two_classes},
                                 {"x_test", npy<std::int16_t>("<i2", "(1, 2)", {-5, 6})},
                                 {"y_test", npy<std::int32_t>("<i4", "(1, 1)", {7})}});
  EXPECT_THAT(floats_of(split.train), ElementsAre(0.5F, 300, -7, 1));
  EXPECT_THAT(floats_of(split.test), ElementsAre(-5, 6));
  EXPECT_TRUE(split.divisors.empty());
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

TEST_F(OpenArrays, PredictsFractions) {
  const std::string targets = npy<float>("<f4", "(2,)", {0.5F, 2});
  EXPECT_TRUE(open({{"x", two_rows}, {"y", targets}}).train.has_targets());
  EXPECT_TRUE(open({{"x", two_rows}, {"y", two_classes}}, {.task = label_kind::numbers}).train.has_targets());
  EXPECT_EQ(array_complaint({{"x", two_rows}, {"y", targets}}, {.task = label_kind::classes}),
            "x.npz: array 'y': number 0 is no whole number, or too large for a class");
}

TEST_F(OpenArrays, PassesOverArraysThatAreNoNumbersAndNoSamples) {
  const std::string names = npy<std::int32_t>("<U1", "(2,)", {97, 98});
  const data_split split = open({{"x", two_rows}, {"y", two_classes}, {"names", names}});
  EXPECT_THAT(split.remarks, testing::Contains("x.npz: array 'names' holds no numbers, and is passed over"));
  EXPECT_THAT(array_complaint({{"x", two_rows}, {"y", names}}), HasSubstr("array 'y'"));
}

TEST_F(OpenArrays, RefusesArraysThatDoNotFit) {
  EXPECT_EQ(array_complaint({{"data", two_rows}}),
            "x.npz: expected arrays x_train, y_train, x_test and y_test, or x and y, found neither");
  EXPECT_EQ(array_complaint({{"x", two_rows}}), "x.npz: expected an array 'y', found none");
  EXPECT_EQ(array_complaint({{"x", two_rows}, {"y", npy<std::int32_t>("<i4", "(3,)", {1, 2, 3})}}),
            "x.npz: arrays 'x' and 'y': 2 samples have 3 answers");
  EXPECT_THAT(array_complaint({{"x", two_rows}, {"y", npy<float>("<f4", "(1, 2)", {1, 2})}}),
              HasSubstr("array 'y': expected one number a sample, found shape 1x2"));
  EXPECT_THAT(array_complaint({{"x_train", two_rows},
                               {"y_train", two_classes},
                               {"x_test", npy<float>("<f4", "(1, 3)", {1, 2, 3})},
                               {"y_test", npy<std::int32_t>("<i4", "(1,)", {3})}}),
              HasSubstr("expected samples of 2 in x_test, as in x_train, found 3"));
  EXPECT_THAT(array_complaint({{"x_train", two_rows},
                               {"y_train", two_classes},
                               {"x_test", two_rows},
                               {"y_test", npy<std::int32_t>("<i4", "(2,)", {3, 9})}}),
              HasSubstr("array 'y_test': expected one of the 2 labels '3', '7', found 9 at number 1"));
  EXPECT_THAT(array_complaint({{"x", npy<float>("<f4", "(2,)", {1, std::nanf("")})}, {"y", two_classes}}),
              HasSubstr("x.npz: arrays 'x' and 'y': dataset: "));
  EXPECT_THAT(array_complaint({{"x", npy<float>("<f4", "()", {1})}, {"y", two_classes}}),
              HasSubstr("has no axis of samples"));
}

/// The same arrays as files of their own, side by side.
class OpenArrayFiles : public testing::Test {
protected:
  std::string open_complaint(const std::string& name = "", const open_options& options = {}) const {
    return complaint([&] { open_data((folder.path() / name).string(), options); });
  }

  scratch_folder folder;
};

TEST_F(OpenArrayFiles, AreReadAsThoseOfAnArchive) {
  folder.write("x_train.npy", npy<std::uint8_t>("|u1", "(2, 1, 2)", {0, 51, 102, 255}));
  folder.write("y_train.npy", npy<std::uint8_t>("|u1", "(2,)", {5, 4}));
  folder.write("x_test.npy", npy<std::uint8_t>("|u1", "(1, 1, 2)", {1, 2}));
  folder.write("y_test.npy.gz", gzipped(npy<std::uint8_t>("|u1", "(1,)", {5})));
  const data_split split = open_data(folder.path().string());
  EXPECT_EQ(split.train.sample_dims(), (shape{1, 2, 1}));
  EXPECT_EQ(std::get<byte_features>(split.train.features()).values,
            (std::vector<std::uint8_t>{0, 51, 102, 255}));
  EXPECT_THAT(split.train.labels(), ElementsAre(1, 0));
  EXPECT_THAT(split.test.labels(), ElementsAre(1));
  EXPECT_THAT(split.class_names, ElementsAre("4", "5"));
  EXPECT_THAT(split.divisors, ElementsAre(255));
  EXPECT_EQ(open_data((folder.path() / "x_train.npy").string()).test.size(), 1U) << "named by its samples";
}

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
