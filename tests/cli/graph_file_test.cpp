#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// Graphs that the tool writes as they are, and reads again.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::tool;
using words = std::vector<std::string>;

class GraphFile : public ::testing::Test {
protected:
  static std::string shown(const words& options) {
    words all{"graph"};
    all.insert(all.end(), options.begin(), options.end());
    tool t(all);
    EXPECT_EQ(t.code(), 0) << t.err();
    return t.out();
  }
  static words with(words options, const words& more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
  }
  void expect_refused(const words& options, const std::string& why) const {
    tool t(with({"graph"}, options));
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_EQ(t.out(), "");
  }
  std::string bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  const scratch_folder folder_;
  const std::string file_ = (folder_.path() / "g.graph").string();
};

TEST_F(GraphFile, IsDrawnAsTheModelIs) {
  for (const char* model : {"softmax", "mlp", "lenet"})
    for (const words& more : {words{}, words{"--gradients"}}) {
      const words options = with({"--model", model}, more);
      EXPECT_EQ(shown(with(options, {"--out", file_})), "") << "the picture gives way to the graph";
      EXPECT_EQ(shown(with({file_}, more)), shown(options)) << model;
    }
}

TEST_F(GraphFile, GetsItsGradientsFromTheReaderIfItHasNone) {
  shown({"--model", "mlp", "--out", file_});
  EXPECT_EQ(shown({file_, "--gradients"}), shown({"--model", "mlp", "--gradients"}));
}

TEST_F(GraphFile, KeepsThePlacesOfAPipeline) {
  const words placed{"--devices", "cpu:0,cpu:1"};
  const words options = with({"--model", "mlp", "--pipeline", "--gradients"}, placed);
  shown(with(options, {"--out", file_}));
  EXPECT_EQ(shown(with({file_, "--gradients"}, placed)), shown(options));
}

TEST_F(GraphFile, IsWrittenToStandardOutputToo) {
  shown({"--model", "softmax", "--out", file_});
  EXPECT_EQ(shown({"--model", "softmax", "--out", "-"}), bytes());
}

TEST_F(GraphFile, IsRefusedInOneLineIfItIsNone) {
  shown({"--model", "softmax", "--out", file_});
  const std::string whole = bytes();
  const auto file = [&](const std::string& content) { return folder_.write("bad", content).string(); };
  expect_refused({file(whole.substr(0, whole.size() / 2))}, "bad: graph: byte 12: expected ");
  expect_refused({file("digraph {}")}, "bad: graph: byte 10: expected a header of 24 bytes, found 10");
  expect_refused({file(std::string(100, 'x'))}, "bad: graph: byte 0: expected 'mgradgrf', found 'xxxxxxxx'");
  std::string damaged = whole;
  damaged.back() ^= 1;
  expect_refused({file(damaged)}, "bad: graph: ");
  expect_refused({(folder_.path() / "none").string()}, "none: cannot be read: No such file");
  expect_refused({folder_.path().string()}, "cannot be read: Is a directory");
}

TEST_F(GraphFile, IsNotMixedUpWithAModel) {
  shown({"--model", "softmax", "--out", file_});
  expect_refused({file_, "--model", "mlp"}, "exclude each other");
  expect_refused({file_, "--pipeline", "--devices", "cpu:0,cpu:1"}, "exclude each other");
  expect_refused({"--model", "mlp", "--out", file_, "--output", "x"},
                 "--output and --out exclude each other");
  const std::string before = bytes();
  expect_refused({file_, "--out", file_}, "both name");
  EXPECT_EQ(bytes(), before);
}

} // namespace
} // namespace mailgrad
