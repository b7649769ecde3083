#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

// What the tool does with tables: CSV files with names, words and missing values.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;

class Table : public ::testing::Test {
protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  /// Flowers with a key, in the order of their kinds. Red ones are roses, whatever their size; some sizes are
  /// missing.
  std::string flowers() const {
    std::string text = "\ufeffkey;kind;colour;size\r\n";
    for (int i = 0; i < 80; ++i)
      text += "k" + std::to_string(i) + (i < 40 ? ";rose;red;" : ";tulip;\"yellow; pale\";") +
              (i % 10 == 3 ? "NA" : std::to_string(i % 7)) + "\r\n";
    return folder_.write("flowers.csv", text).string();
  }

  static std::vector<std::string> train(const std::string& data, const std::vector<std::string>& words) {
    std::vector<std::string> all{"train", "--model",  "softmax", "--data", data,  "--batch",
                                 "8",     "--epochs", "30",      "--lr",   "0.5", "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  const scratch_folder folder_;
};

/// A file of later rows shows neither how wide the model is nor that its columns count from 0.
TEST_F(Table, OfSparseRowsIsUsedAsItsTrainingFileWas) {
  std::string rows = "# columns count from 0\n";
  for (int i = 0; i < 40; ++i) rows += "1 0:1 3:1\n0 2:1\n";
  const std::string data = folder_.write("rows", rows).string();
  folder_.write("rows.t", "1 3:1 6:1\n0 2:1\n");
  tool narrow(train(data, {"--save", path("m.safetensors")}));
  EXPECT_EQ(narrow.code(), 2);
  EXPECT_THAT(narrow.err(), HasSubstr("expected an index from 0 to 3, found '6'; --features N"));
  tool wide(train(data, {"--features", "8", "--save", path("m.safetensors"), "--report", path("run.json")}));
  ASSERT_EQ(wide.code(), 0) << wide.err();
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(path("run.json")))["test_accuracy"], 1.0);
  tool later({"test", "--model-file", path("m.safetensors"), "--data",
              folder_.write("later", "1 3:1\n0 2:1\n").string()});
  ASSERT_EQ(later.code(), 0) << later.err();
  EXPECT_THAT(later.out(), HasSubstr("1.0000"));
}

TEST_F(Table, IsLearntAndUsedAsItsOptionsSay) {
  const std::string data = flowers();
  const std::vector<std::string> words{"--label",         "kind",
                                       "--leave-out",     "key",
                                       "--missing",       "mean",
                                       "--delimiter",     ";",
                                       "--save",          path("m.safetensors"),
                                       "--test-fraction", "0.25",
                                       "--report",        path("run.json")};
  tool t(train(data, words));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), Not(HasSubstr("class"))) << "both kinds are in both parts";
  const nlohmann::json report = nlohmann::json::parse(std::ifstream(path("run.json")));
  EXPECT_EQ(report["test_accuracy"], 1.0);
  tool tested({"test", "--model-file", path("m.safetensors"), "--data", data});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.out(), AllOf(HasSubstr("80 samples"), HasSubstr("accuracy      1.0000")));
  const std::string rows = folder_.write("new.csv", "x;red;?\ny;\"yellow; pale\";3\n").string();
  tool predicted({"predict", "--model-file", path("m.safetensors"), "--rows", rows});
  ASSERT_EQ(predicted.code(), 0) << predicted.err();
  EXPECT_THAT(predicted.out(), AllOf(HasSubstr("rose,0."), HasSubstr("tulip,0.")));
  const std::string blue = folder_.write("blue.csv", "x;blue;1\n").string();
  tool refused({"predict", "--model-file", path("m.safetensors"), "--rows", blue, "--header", "no"});
  EXPECT_EQ(refused.code(), 2);
  EXPECT_THAT(refused.err(),
              HasSubstr("expected one of the 2 words 'red', 'yellow; pale' in column 2, found 'blue'"));
}

TEST_F(Table, SaysWhatIsLeftOutAndWhichClassesAreMissing) {
  const std::string data = flowers();
  tool dropped(train(
      data, {"--label", "2", "--missing", "drop", "--leave-out", "key", "--save", path("m.safetensors")}));
  ASSERT_EQ(dropped.code(), 0) << dropped.err();
  EXPECT_THAT(
      dropped.err(),
      HasSubstr("mailgrad: warning: flowers.csv: 8 of 80 rows have missing values and were left out"));
  tool tested({"test", "--model-file", path("m.safetensors"), "--data", data});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.err(), HasSubstr("8 of 80 rows have missing values"));
  EXPECT_THAT(tested.out(), HasSubstr("72 samples"));
  tool predicted({"predict", "--model-file", path("m.safetensors"), "--data", data});
  EXPECT_EQ(predicted.code(), 2) << "an answer for each row, or none";
  EXPECT_THAT(predicted.err(), HasSubstr("line 5: expected a finite number in column 4, found 'NA'"));
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += std::to_string(i) + ",a\n";
  tool one(train(folder_.write("alike.csv", rows).string(), {}));
  EXPECT_EQ(one.code(), 0) << one.err();
  EXPECT_THAT(one.err(), HasSubstr("mailgrad: warning: all 16 samples to train on are of one class, 'a'"));
}

/// Words of two encodings, decimal commas, and labels that are codes.
std::string cities(int rows) {
  std::string text = "stadt;wert;class\n";
  for (int i = 0; i < rows; ++i)
    text +=
        (i % 2 == 0 ? "K\xf6ln;1,5" : "M\xfcnchen;-12.345,5") + std::string(i % 2 == 0 ? ";010\n" : ";10\n");
  return text;
}

TEST_F(Table, SaysWhatWasUnderstoodBeforeItTrains) {
  const std::string data = folder_.write("cities.csv", cities(50)).string();
  tool t({"train", "--model", "softmax", "--data", data, "--batch", "8", "--report", path("run.json")});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), ::testing::StartsWith(
                           "read as   CSV in Windows-1252, ';' between fields, ',' as decimal sign, '.'\n"
                           "          between thousands, with a header\n"
                           "columns   1 of numbers, 1 of categories; 3 inputs\n"
                           "label     'class', column 3: its name says so\n"
                           "task      2 classes: the label holds codes, such as 007\n"
                           "classes   20 samples each\n"
                           "test      10 samples: 0.2 of the file, drawn from each class in proportion\n"
                           "missing   no values\n"));
  EXPECT_THAT(t.err(), HasSubstr("\ncities.csv: 40 samples to train on"));
  const nlohmann::json reading = nlohmann::json::parse(std::ifstream(path("run.json")))["reading"];
  EXPECT_EQ(reading["table"]["encoding"], "Windows-1252");
  EXPECT_EQ(reading["classes"]["smallest"], nlohmann::json::parse(R"({"name": "010", "samples": 20})"));
  tool quiet({"train", "--model", "softmax", "--data", data, "--batch", "8", "--quiet"});
  EXPECT_EQ(quiet.err(), "");
}

TEST_F(Table, MayHaveACommaInTheNameOfAColumn) {
  std::string text = "\"a,b\",a,b,kind\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{},7,{}\n", i, i % 3, i % 2 == 0 ? "x" : "y");
  tool t({"train", "--data", folder_.write("names.csv", text).string(), "--leave-out", "\"a,b\",b", "--batch",
          "4", "--dry-run"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("columns   1 of numbers, 2 left out ('a,b', 'b'); 1 input\n"));
}

TEST_F(Table, IsReadByTheDecimalSignThatIsAskedFor) {
  std::string text = "a;kind\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("1.{}00;{}\n", i % 10, i % 2 == 0 ? "x" : "y");
  tool t({"train", "--data", folder_.write("n.csv", text).string(), "--decimal", "comma", "--batch", "4",
          "--dry-run"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("',' as decimal sign, '.'"));
}

TEST_F(Table, IsUsedAsItIsWrittenByATrainedModel) {
  const std::string data = folder_.write("cities.csv", cities(50)).string();
  tool t(train(data, {"--save", path("m.safetensors")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  tool tested({"test", "--model-file", path("m.safetensors"), "--data", data});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.out(), HasSubstr("accuracy      1.0000"));
  EXPECT_THAT(tested.err(),
              AllOf(HasSubstr("read as   CSV in Windows-1252"), HasSubstr("column 3: as in training")));
  tool predicted({"predict", "--model-file", path("m.safetensors"), "--data", data});
  EXPECT_EQ(predicted.code(), 0) << predicted.err();
  const std::string rows = folder_.write("new.csv", "K\xf6ln;1,5\nM\u00fcnchen;-12.345,5\n").string();
  tool answered({"predict", "--model-file", path("m.safetensors"), "--rows", rows});
  ASSERT_EQ(answered.code(), 0) << answered.err();
  EXPECT_THAT(answered.out(),
              AllOf(::testing::StartsWith("class,probability,010,10\n010,0."), HasSubstr("\n10,0.")));
}

TEST_F(Table, IsOnlyLookedAtInADryRun) {
  const std::string data = folder_.write("cities.csv", cities(50)).string();
  std::vector<std::string> words{"train",  "--data",  data,       "--batch",      "8",        "--dry-run",
                                 "--save", path("m"), "--report", path("r.json"), "--record", path("rec")};
  tool t(words);
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(),
              AllOf(HasSubstr("read as   CSV in Windows-1252"), Not(HasSubstr("samples to train on"))));
  EXPECT_THAT(t.err(), ::testing::ContainsRegex("mlp with [0-9]+ weights fits these data and options, under "
                                                "async; nothing was trained\n"));
  EXPECT_EQ(t.out(), "");
  for (const char* file : {"m", "r.json", "rec"}) EXPECT_FALSE(std::filesystem::exists(path(file))) << file;
  words.insert(words.end(), {"--policy", "k-async:7"});
  tool refused(words);
  EXPECT_EQ(refused.code(), 2) << "the policy asks for more workers";
  tool resumed({"train", "--dry-run", "--resume", path("no")});
  EXPECT_EQ(resumed.code(), 2);
}

TEST_F(Table, RefusesMissingValuesUnlessItIsTold) {
  tool t(train(flowers(), {"--label", "kind", "--leave-out", "key"}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(),
              HasSubstr("line 5: expected a finite number in column 4, found 'NA'; --missing drop or mean"));
}

TEST_F(Table, RefusesWordsThatMeanNothing) {
  const std::string data = flowers();
  for (const auto& [option, value, says] : {std::tuple{"--delimiter", "ab", "expected one character"},
                                            {"--delimiter", "\"", "expected one character"},
                                            {"--test-fraction", "0", "between 0 and 1"},
                                            {"--test-fraction", "1", "between 0 and 1"},
                                            {"--test-fraction", "2", "--test-fraction"},
                                            {"--missing", "guess", "--missing"},
                                            {"--decimal", "dot", "--decimal"},
                                            {"--leave-out", "\"key\"x", "expected double quotes"},
                                            {"--header", "maybe", "--header"},
                                            {"--label", "sort", "expected a column called 'sort'"}}) {
    tool t(train(data, {option, value}));
    EXPECT_EQ(t.code(), 2) << option << ' ' << value;
    EXPECT_THAT(t.err(), HasSubstr(says)) << option << ' ' << value;
  }
}

TEST_F(Table, ShapesTheGraphThatIsDrawn) {
  tool t({"graph", "--model", "softmax", "--data", flowers(), "--label", "kind", "--leave-out", "key",
          "--missing", "drop"});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), HasSubstr("64x3")) << "two colours and a size";
}

TEST_F(Table, IsReplayedWithItsOptions) {
  const std::string data = flowers();
  tool t(train(data, {"--label", "kind", "--leave-out", "key,size", "--test-fraction", "0.5", "--seed", "9",
                      "--record", path("run.rec")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  tool again({"replay", path("run.rec"), "--quiet"});
  EXPECT_EQ(again.code(), 0) << again.err();
}

} // namespace
} // namespace mailgrad
