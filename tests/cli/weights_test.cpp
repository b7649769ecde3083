#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

// Weights that a run of the tool keeps, and begins with.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;

class Weights : public ::testing::Test {
protected:
  static std::vector<std::string> train(const std::vector<std::string>& words,
                                        const std::string& model = "mlp:hidden=5") {
    std::vector<std::string> all{"train",   "--model", model,     "--data", MAILGRAD_SMALL_CSV,
                                 "--batch", "4",       "--steps", "20",     "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  static std::string bytes_of(const std::string& file) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    return bytes.str();
  }

  const scratch_folder folder_;
};

TEST_F(Weights, AreSavedWithWhatIsNeededToUseThem) {
  tool t(train({"--save", path("m.safetensors"), "--report", path("run.json")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const saved_weights read = load_weights(path("m.safetensors"));
  ASSERT_TRUE(read.card);
  EXPECT_EQ(read.card->model, "mlp:hidden=5");
  EXPECT_EQ(read.card->class_names.size(), read.card->request.classes);
  EXPECT_FALSE(read.card->divisors.empty()) << "the numbers of a CSV file are divided";
  EXPECT_NE(read.find("dense1/weights"), nullptr);
  const auto report = nlohmann::json::parse(read.report);
  EXPECT_EQ(report["parameters_sha256"],
            nlohmann::json::parse(std::ifstream(path("run.json")))["parameters_sha256"]);
}

/// A run may be continued although its model file is gone.
TEST_F(Weights, HoldTheContentOfAModelFile) {
  const std::string file =
      folder_.write("net.json", "\n {\"layers\": [{\"dense\": {\"units\": 3, \"activation\": \"tanh\"}}]}")
          .string();
  tool t(train({"--save", path("m.safetensors")}, file));
  ASSERT_EQ(t.code(), 0) << t.err();
  const std::string content = load_weights(path("m.safetensors")).card->model;
  EXPECT_TRUE(content.starts_with("{\"layers\"")) << content;
  std::filesystem::remove(file);
  tool again(train({"--load", path("m.safetensors")}, content));
  EXPECT_EQ(again.code(), 0) << again.err();
}

TEST_F(Weights, AreWhatTheNextRunBeginsWith) {
  tool first(train({"--save", path("m.safetensors")}));
  ASSERT_EQ(first.code(), 0) << first.err();
  tool next(train({"--load", path("m.safetensors"), "--lr", "1e-30", "--save", path("n.safetensors")}));
  ASSERT_EQ(next.code(), 0) << next.err();
  const saved_weights a = load_weights(path("m.safetensors")), b = load_weights(path("n.safetensors"));
  for (const saved_weights::variable& v : a.variables)
    EXPECT_THAT(b.find(v.name)->values.values(), ::testing::ElementsAreArray(v.values.values())) << v.name;
}

TEST_F(Weights, OfAnotherModelNameTheFirstDifference) {
  tool first(train({"--save", path("m.safetensors")}));
  ASSERT_EQ(first.code(), 0) << first.err();
  tool other(train({"--load", path("m.safetensors")}, "mlp:hidden=6"));
  EXPECT_NE(other.code(), 0);
  EXPECT_THAT(other.err(), AllOf(HasSubstr("m.safetensors': variable 'dense1/weights' is"),
                                 HasSubstr("2 more differences")));
  tool lax(train({"--load", path("m.safetensors"), "--load-strict", "no"}, "mlp:hidden=6"));
  EXPECT_EQ(lax.code(), 0);
  EXPECT_THAT(lax.err(),
              AllOf(HasSubstr("took 1 of 4 variables of '"), HasSubstr("variable 'dense2/weights' is")));
  tool none(train({"--load", path("m.safetensors"), "--load-strict", "no"}, "softmax"));
  EXPECT_EQ(none.code(), 2);
  EXPECT_THAT(none.err(), HasSubstr("m.safetensors' fit no variable of the model, so nothing was loaded: "));
}

TEST_F(Weights, AreRefusedWhereTheyAreDamaged) {
  tool first(train({"--save", path("m.safetensors")}));
  ASSERT_EQ(first.code(), 0) << first.err();
  const std::string whole = bytes_of(path("m.safetensors"));
  folder_.write("cut.safetensors", whole.substr(0, whole.size() - 1));
  tool cut(train({"--load", path("cut.safetensors")}));
  EXPECT_NE(cut.code(), 0);
  EXPECT_THAT(cut.err(), HasSubstr("cut.safetensors: the arrays take"));
  tool none(train({"--load", path("none.safetensors")}));
  EXPECT_NE(none.code(), 0);
  EXPECT_THAT(none.err(), HasSubstr("cannot be read: No such file"));
}

/// An hour of training is not spent before it is known that the weights cannot be kept.
TEST_F(Weights, AreRefusedAPlaceBeforeTheRun) {
  const auto refused = [&](const std::vector<std::string>& words, const char* why) {
    tool t(train(words));
    EXPECT_NE(t.code(), 0) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_THAT(t.out(), Not(HasSubstr("completed"))) << "it has trained";
  };
  refused({"--save", path("none/m")}, "cannot be written: No such file");
  refused({"--save", folder_.path().string()}, "Is a directory");
  refused({"--save", "-"}, "weights are no output for a pipe");
  refused({"--save", "/dev/full"}, "is a pipe or a device");
  refused({"--save", path("a"), "--report", path("a")}, "--report and --save both name");
  const std::string copy = folder_.write("copy.csv", bytes_of(MAILGRAD_SMALL_CSV)).string();
  tool same({"train", "--data", copy, "--save", copy});
  EXPECT_EQ(same.code(), 2);
  EXPECT_THAT(same.err(), HasSubstr("both name"));
  EXPECT_EQ(bytes_of(copy), bytes_of(MAILGRAD_SMALL_CSV));
  refused({"--load-strict", "no"}, "--load");
}

TEST_F(Weights, ThatAreNotFiniteReplaceNoOthers) {
  folder_.write("m.safetensors", "what was there");
  tool t(train({"--save", path("m.safetensors"), "--lr", "1e30"}));
  EXPECT_EQ(t.code(), 5);
  EXPECT_EQ(bytes_of(path("m.safetensors")), "what was there");
}

/// All outputs of a run go to the same full disk.
TEST_F(Weights, AreWrittenThoughTheReportCannotBe) {
  tool t(train({"--save", path("m.safetensors"), "--report", "/dev/full", "--trace", "/dev/full"}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("report '/dev/full' cannot be written: No space left on device"),
                             HasSubstr("trace '/dev/full' cannot be written: No space left on device")));
  EXPECT_NE(load_weights(path("m.safetensors")).find("dense1/weights"), nullptr);
}

TEST_F(Weights, AreThoseOfTheModelFileThatTheRunHasRead) {
  const std::string model = folder_.write("model.json", R"({"layers":[{"dense":{}}]})").string();
  tool t({"train", "--model", model, "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--epochs", "1000000000",
          "--save", path("m.safetensors")});
  ASSERT_TRUE(t.says("to train on")) << t.err();
  std::filesystem::remove(model);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_EQ(load_weights(path("m.safetensors")).card.value().model, R"({"layers":[{"dense":{}}]})");
}

TEST_F(Weights, ThatAreNotFiniteBeginNoRun) {
  const std::vector<float> bad{1, std::numeric_limits<float>::quiet_NaN()};
  save_weights(path("m.safetensors"), std::vector<named_weights>{{"dense1/bias", {2}, bad}}, {});
  tool t(train({"--load", path("m.safetensors"), "--load-strict", "no"}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(),
              HasSubstr("m.safetensors: array 'dense1/bias': number 1 is nan; weights must be finite"));
}

/// The folder for temporary files is another one when the place of the weights fails at the end.
TEST_F(Weights, AreRescuedIfTheirPlaceIsGoneAtTheEnd) {
  const std::filesystem::path there = folder_.path() / "there";
  const std::filesystem::path rescue = folder_.path() / "rescue";
  std::filesystem::create_directory(there);
  std::filesystem::create_directory(rescue);
  setenv("TMPDIR", rescue.c_str(), 1);
  tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--epochs",
          "1000000000", "--save", (there / "m.safetensors").string()});
  unsetenv("TMPDIR");
  ASSERT_TRUE(t.says("to train on")) << t.err();
  std::filesystem::remove_all(there);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("cannot be written: No such file"), HasSubstr("; they are in '")));
  std::size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(rescue)) {
    EXPECT_NE(load_weights(file.path()).find("dense1/weights"), nullptr);
    ++found;
  }
  EXPECT_EQ(found, 1U);
}

} // namespace
} // namespace mailgrad
