#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/npz.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

// What the tool does with folders of pictures, and with arrays of numpy.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::tool;

class Pictures : public ::testing::Test {
protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Pictures of 4 x 4 pixels: those of the night are dark.
  void draw(const std::string& root) const {
    for (int i = 0; i < 20; ++i)
      for (const char* name : {"day", "night"}) {
        const auto file = folder_.path() / root / name / (std::to_string(i) + (i % 2 == 0 ? ".png" : ".jpg"));
        std::filesystem::create_directories(file.parent_path());
        const std::string pixels(16, static_cast<char>((name[0] == 'd' ? 100 : 0) + i));
        folder_.write(std::filesystem::relative(file, folder_.path()).string(),
                      i % 2 == 0 ? png_of(4, 4, 1, pixels) : jpeg_of(4, 4, 1, pixels));
      }
  }
  static std::vector<std::string> train(const std::string& data, const std::vector<std::string>& words) {
    std::vector<std::string> all{"train", "--model",  "softmax", "--data", data,  "--batch",
                                 "8",     "--epochs", "60",      "--lr",   "0.5", "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  const scratch_folder folder_;
};

TEST_F(Pictures, AreLearntAndPredicted) {
  draw("sky");
  tool t(train(path("sky"), {"--save", path("sky.npz"), "--test-fraction", "0.25"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), HasSubstr("1.0000"));
  tool tested({"test", "--model-file", path("sky.npz"), "--data", path("sky")});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.out(),
              AllOf(HasSubstr("40 samples"), HasSubstr("accuracy      1.0000"), HasSubstr("night")));
  tool predicted({"predict", "--model-file", path("sky.npz"), "--data", path("sky")});
  ASSERT_EQ(predicted.code(), 0) << predicted.err();
  EXPECT_THAT(predicted.out(),
              AllOf(HasSubstr("class,probability,day,night\nday,0."), HasSubstr("\nnight,0.")));
}

/// The answers are those that the data set gets, with the names of the files before them.
TEST_F(Pictures, NeedNoLabelsToBePredicted) {
  draw("sky");
  tool t(train(path("sky"), {"--save", path("sky.npz")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  tool labelled({"predict", "--model-file", path("sky.npz"), "--data", path("sky")});
  tool csv(
      {"predict", "--model-file", path("sky.npz"), "--picture-files", path("sky/day"), path("sky/night")});
  ASSERT_EQ(csv.code(), 0) << csv.err();
  std::istringstream lines(csv.out());
  std::string line, without_names;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "file,class,probability,day,night");
  for (without_names = line.substr(5) + '\n'; std::getline(lines, line);) {
    EXPECT_THAT(line, StartsWith(path("sky/")));
    without_names += line.substr(line.find(',') + 1) + '\n';
  }
  EXPECT_EQ(without_names, labelled.out());
  tool jsonl({"predict", "--model-file", path("sky.npz"), "--format", "jsonl", "--picture-files",
              path("sky/night/3.jpg")});
  ASSERT_EQ(jsonl.code(), 0) << jsonl.err();
  const auto answer = nlohmann::json::parse(jsonl.out());
  EXPECT_EQ(answer["file"], path("sky/night/3.jpg"));
  EXPECT_EQ(answer["class"], "night");
}

TEST_F(Pictures, WithoutLabelsAreRefusedByName) {
  draw("sky");
  tool t(train(path("sky"), {"--save", path("sky.npz")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const auto refused = [&](const std::string& name, const std::string& why) {
    tool p(
        {"predict", "--model-file", path("sky.npz"), "--picture-files", path("sky/day/0.png"), path(name)});
    EXPECT_EQ(p.code(), 2);
    EXPECT_EQ(p.out(), "") << "no answer before all of a group are decoded";
    EXPECT_THAT(p.err(), HasSubstr(name + why));
  };
  folder_.write("wide.png", png_of(5, 4, 1, std::string(20, 'a')));
  refused("wide.png", ": expected 4x4 pixels, as the model reads them, found 5x4");
  folder_.write("cut.jpg", jpeg_of(4, 4, 1, std::string(16, 'a')).substr(0, 300));
  refused("cut.jpg", ": the picture is damaged");
  refused("none.png", ": cannot be read: No such file");
  refused("sky", ": expected pictures *.png or *.jpg in the folder, found none");
}

TEST_F(Pictures, AreRefusedByTheNameOfTheFile) {
  draw("sky");
  folder_.write("sky/night/7.jpg", "gone");
  tool t(train(path("sky"), {}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("sky/night/7.jpg: expected a PNG or JPEG picture, found 'gone'"));
}

TEST_F(Pictures, MayBeArraysOfNumpy) {
  std::vector<float> x, y;
  for (int i = 0; i < 40; ++i) {
    x.insert(x.end(), {i % 2 == 0 ? 1.0F : 0.0F, 0.5F});
    y.push_back(static_cast<float>(i % 2));
  }
  write_npz(path("xy.npz"), std::vector<array_to_store>{{"x", {40, 2}, x}, {"y", {40}, y}}, {});
  tool t(train(path("xy.npz"), {"--task", "classification", "--save", path("m.safetensors")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  tool tested({"test", "--model-file", path("m.safetensors"), "--data", path("xy.npz")});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.out(), AllOf(HasSubstr("40 samples"), HasSubstr("accuracy      1.0000")));
}

} // namespace
} // namespace mailgrad
