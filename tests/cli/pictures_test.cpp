#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/npz.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

// What the tool does with folders of pictures, and with arrays of numpy.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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
