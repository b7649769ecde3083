#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/cli/commands/trained_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <utility>

// What the tool does with a model that it has trained: test, predict, generate.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::tool;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A terminal, for what a test starts.
class terminal {
public:
  terminal() : ours_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (ours_ < 0 || grantpt(ours_) != 0 || unlockpt(ours_) != 0) throw std::runtime_error("no terminal");
    theirs_ = open(ptsname(ours_), O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  ~terminal() { close(ours_); }
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  std::string name() const { return ptsname(ours_); }
  /// All that is shown, when nobody writes to it any more.
  std::string read_until_closed() const {
    close(theirs_);
    std::string text;
    char part[4096];
    for (ssize_t n = 0; (n = read(ours_, part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
    return text;
  }

private:
  int ours_, theirs_ = -1; ///< its two ends
};

class TrainedModel : public ::testing::Test {
protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  /// Trains a model of four numbers and three words. Class "a" has large first numbers, "b" large second
  /// ones.
  std::string trained(const std::string& model = "softmax") {
    std::string rows = "w,h,label\n";
    for (int i = 0; i < 60; ++i)
      rows += i % 2 == 0 ? std::to_string(90 + i % 7) + ",3,large\n"
                         : "2," + std::to_string(80 + i % 9) + ",\"tall, thin\"\n";
    const std::string data = folder_.write("rows.csv", rows).string();
    tool t({"train", "--model", model, "--data", data, "--batch", "8", "--epochs", "40", "--lr", "0.5",
            "--save", path("m.safetensors"), "--report", path("run.json"), "--quiet"});
    EXPECT_EQ(t.code(), 0) << t.err();
    return path("m.safetensors");
  }

  /// Copies a safetensors file without what it tells of its model.
  static void weights_alone(const std::string& from, const std::string& to) {
    std::ifstream in(from, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    const std::string header = bytes.substr(8, size);
    nlohmann::json tensors = nlohmann::json::parse(header);
    tensors.erase("__metadata__");
    std::string bare = tensors.dump();
    bare.resize(size, ' ');
    std::ofstream(to, std::ios::binary) << bytes.replace(8, size, bare);
  }

  const scratch_folder folder_;
};

TEST_F(TrainedModel, SaysOfBothWhereDataAreOfAnotherKind) {
  const std::string model = trained();
  std::string words;
  for (int i = 0; i < 400; ++i) words += i % 3 == 0 ? "the cat " : "a mat ";
  const std::string text = folder_.write("words.txt", words).string();
  tool t({"test", "--model-file", model, "--data", text});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(t.err(), "mailgrad: '" + model + "' reads rows of 2 numbers, and '" + text + "' has text\n");
  const auto refused = [&](const std::string& of, const std::string& data, const std::string& why) {
    tool untrained({"train", "--model", of, "--data", data, "--batch", "8"});
    EXPECT_EQ(untrained.code(), 2);
    EXPECT_THAT(untrained.err(), HasSubstr("mailgrad: " + why + '\n'));
  };
  refused("lenet", text, "lenet reads pictures, and 'words.txt' has text: take gpt");
  refused("mlp:hidden=5", text, "mlp reads no text, and 'words.txt' has text: take gpt");
  refused("lenet", path("rows.csv"),
          "lenet reads pictures, and 'rows.csv' has rows of 2 numbers: take mlp or softmax");
  refused("gpt", path("rows.csv"),
          "gpt reads text, and 'rows.csv' has rows of 2 numbers: take mlp or softmax");
}

TEST_F(TrainedModel, IsTestedOnAllRowsOfAFile) {
  const std::string model = trained();
  tool t({"test", "--model-file", model, "--data", path("rows.csv"), "--report", path("test.json")});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(),
              AllOf(HasSubstr("60 samples"), HasSubstr("accuracy      1.0000"), HasSubstr("tall, thin")));
  const nlohmann::json found = nlohmann::json::parse(std::ifstream(path("test.json")));
  EXPECT_EQ(found["samples"], 60);
  EXPECT_EQ(found["accuracy"], 1.0);
  EXPECT_EQ(found["classes"][0],
            nlohmann::json::parse(R"({"name":"large","samples":30,"precision":1.0,"recall":1.0})"));
  EXPECT_EQ(found["confusion"], nlohmann::json::parse("[[30,0],[0,30]]"));
}

/// The numbers are divided as in training, though other rows would give other divisors; and labels keep their
/// numbers, though the file has only one.
TEST_F(TrainedModel, ReadsOtherFilesAsItsOwn) {
  const std::string model = trained();
  const std::string other = folder_.write("other.csv", "w,h,label\n1,95,\"tall, thin\"\n").string();
  tool t({"test", "--model-file", model, "--data", other});
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(), HasSubstr("accuracy      1.0000"));
  const std::string unknown = folder_.write("unknown.csv", "w,h,label\n1,95,round\n").string();
  tool refused({"test", "--model-file", model, "--data", unknown});
  EXPECT_EQ(refused.code(), 2);
  EXPECT_THAT(refused.err(),
              HasSubstr("line 2: expected one of the 2 labels 'large', 'tall, thin', found 'round'"));
  const std::string wide = folder_.write("wide.csv", "1,2,3,large\n").string();
  tool wider({"test", "--model-file", model, "--data", wide});
  EXPECT_EQ(wider.code(), 2);
  EXPECT_THAT(wider.err(), HasSubstr("line 1: expected 3 columns, found 4"));
}

TEST_F(TrainedModel, OfWeightsAloneIsTheOneThatIsNamed) {
  const std::string model = trained(), bare = path("bare.safetensors"), data = path("rows.csv");
  weights_alone(model, bare);
  for (const char* command : {"test", "predict"}) {
    tool unnamed({command, "--model-file", bare, "--data", data});
    EXPECT_EQ(unnamed.code(), 2);
    EXPECT_THAT(unnamed.err(), AllOf(HasSubstr("'" + bare + "' names no model"), HasSubstr("--model")));
    tool t({command, "--model-file", bare, "--model", "softmax", "--data", data});
    ASSERT_EQ(t.code(), 0) << t.err();
    tool twice({command, "--model-file", model, "--model", "softmax", "--data", data});
    EXPECT_EQ(twice.code(), 2);
    EXPECT_THAT(twice.err(), HasSubstr("names its model itself; leave --model out"));
    tool other({command, "--model-file", bare, "--model", "mlp", "--data", data});
    EXPECT_EQ(other.code(), 2);
    EXPECT_THAT(other.err(), HasSubstr("bare.safetensors"));
  }
  tool tested({"test", "--model-file", bare, "--model", "softmax", "--data", data});
  EXPECT_THAT(tested.out(), HasSubstr("accuracy      1.0000"));
  tool own({"predict", "--model-file", model, "--data", data});
  tool told({"predict", "--model-file", bare, "--model", "softmax", "--data", data});
  EXPECT_EQ(told.out(), own.out()) << "numbers are divided as in training";
  tool rows({"predict", "--model-file", bare, "--model", "softmax", "--rows", data});
  EXPECT_EQ(rows.code(), 2);
  EXPECT_THAT(rows.err(), HasSubstr("name a data set by --data"));
}

TEST_F(TrainedModel, PredictsRowsWithoutLabels) {
  const std::string model = trained();
  const std::string rows = folder_.write("new.csv", "w,h\n94,2\n1,85\n").string();
  tool csv({"predict", "--model-file", model, "--rows", rows});
  ASSERT_EQ(csv.code(), 0) << csv.err();
  const auto lines = lines_of(csv.out());
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], "class,probability,large,\"tall, thin\"");
  EXPECT_THAT(lines[1], StartsWith("large,0."));
  EXPECT_THAT(lines[2], StartsWith("\"tall, thin\",0."));
  tool jsonl({"predict", "--model-file", model, "--rows", rows, "--format", "jsonl"});
  ASSERT_EQ(jsonl.code(), 0) << jsonl.err();
  const nlohmann::json second = nlohmann::json::parse(lines_of(jsonl.out()).at(1));
  EXPECT_EQ(second["class"], "tall, thin");
  EXPECT_EQ(second["probability"], second["probabilities"][1]);
  EXPECT_NEAR(second["probabilities"][0].get<double>() + second["probabilities"][1].get<double>(), 1, 1e-6);
}

/// The same numbers give the same answers, whether they are written as a text or as an array.
TEST_F(TrainedModel, PredictsAnArrayOfSamples) {
  const std::string model = trained();
  const std::string rows = folder_.write("new.csv", "94,2\n1,85\n").string();
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n";
  const std::string array =
      std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  const std::string named = folder_.write("new.npy", array + "\x5e\x02\x01\x55").string();
  tool text({"predict", "--model-file", model, "--rows", rows});
  for (const char* option : {"--rows", "--data"}) {
    tool t({"predict", "--model-file", model, option, named});
    ASSERT_EQ(t.code(), 0) << t.err();
    EXPECT_THAT(lines_of(t.out()), SizeIs(3));
    EXPECT_EQ(t.out(), text.out()) << option;
  }
  const std::string cut = folder_.write("cut.npy", array + "\x5e\x02\x01").string();
  tool refused({"predict", "--model-file", model, "--rows", cut});
  EXPECT_EQ(refused.code(), 2);
  EXPECT_THAT(refused.err(),
              HasSubstr("array 'cut': its shape of 2x2 needs 4 numbers of 1 bytes, found 3 bytes"));
}

TEST_F(TrainedModel, PredictsSamplesOfADataSetAsItsTestDoes) {
  const std::string model = trained();
  tool t({"predict", "--model-file", model, "--data", path("rows.csv")});
  ASSERT_EQ(t.code(), 0) << t.err();
  const auto lines = lines_of(t.out());
  ASSERT_THAT(lines, SizeIs(61));
  EXPECT_THAT(lines[1], StartsWith("large"));
  EXPECT_THAT(lines[2], StartsWith("\"tall"));
}

/// As of other programs that write more than somebody wants to read.
TEST_F(TrainedModel, EndsInSilenceWhenItsReaderHasSeenEnough) {
  const std::string model = trained();
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "94,2\n";
  const std::string rows = folder_.write("many.csv", many).string();
  const std::string command = "bash -c '\"" MAILGRAD_TOOL "\" predict --model-file \"" + model +
                              "\" --rows \"" + rows + "\" 2>\"" + path("err") + "\" | head -n 1 >\"" +
                              path("out") + "\"; exit ${PIPESTATUS[0]}'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream err(path("err"));
  EXPECT_THAT(lines_of({std::istreambuf_iterator<char>(err), {}}),
              ::testing::ElementsAre(StartsWith("read as ")));
  EXPECT_GT(std::filesystem::file_size(path("out")), 0U);
  tool full({"predict", "--model-file", model, "--rows", rows}, "/dev/full");
  EXPECT_EQ(full.code(), 1);
  EXPECT_THAT(full.err(), HasSubstr("answers cannot be written: No space left on device"));
}

TEST_F(TrainedModel, PredictsNumbers) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += std::to_string(i % 5) + ",1," + std::to_string(2 * (i % 5) + 1) + "\n";
  const std::string data = folder_.write("line.csv", rows).string();
  tool train({"train", "--model", "softmax", "--task", "regression", "--data", data, "--batch", "8",
              "--epochs", "200", "--lr", "0.1", "--save", path("line.safetensors"), "--quiet"});
  ASSERT_EQ(train.code(), 0) << train.err();
  const std::string ask = folder_.write("ask.csv", "3,1\n0,1\n").string();
  tool t({"predict", "--model-file", path("line.safetensors"), "--rows", ask});
  ASSERT_EQ(t.code(), 0) << t.err();
  const auto lines = lines_of(t.out());
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], "number");
  EXPECT_NEAR(std::stod(lines[1]), 7, 0.2);
  EXPECT_NEAR(std::stod(lines[2]), 1, 0.2);
  tool tested({"test", "--model-file", path("line.safetensors"), "--data", data});
  ASSERT_EQ(tested.code(), 0) << tested.err();
  EXPECT_THAT(tested.out(), HasSubstr("RMSE"));
}

TEST_F(TrainedModel, GeneratesTheSameTextFromTheSameSeed) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcdeabcde\n"; // 11 symbols, so that windows of 8 begin at each
  const std::string data = folder_.write("t.txt", text).string();
  tool train({"train", "--model", "gpt:layers=1,width=16,heads=2", "--data", data, "--window", "8", "--batch",
              "4", "--epochs", "150", "--optimizer", "adam", "--lr", "0.01", "--save", path("t.safetensors"),
              "--quiet"});
  ASSERT_EQ(train.code(), 0) << train.err();
  const auto written = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"generate", "--model-file", path("t.safetensors"), "--length", "12"};
    all.insert(all.end(), words.begin(), words.end());
    tool t(all);
    EXPECT_EQ(t.code(), 0) << t.err();
    return t.out();
  };
  EXPECT_EQ(written({"--seed", "4"}), written({"--seed", "4"}));
  EXPECT_THAT(written({"--prompt", "abc", "--temperature", "0"}),
              AnyOf(StartsWith("deabcde\nabc"), StartsWith("de\nabcdeabcd"))) // "abc" stands in both halves
      << "how the products round decides";
  for (const auto& [prompt, which] :
       {std::pair("abx", "character 3, 'x', U+0078"),
        std::pair("a\xc3\xa9", "character 2, '\xc3\xa9', U+00E9"), std::pair("a\t", "character 2, U+0009"),
        std::pair("\xff", "character 1, byte 0xff")}) {
    tool unknown({"generate", "--model-file", path("t.safetensors"), "--prompt", prompt});
    EXPECT_EQ(unknown.code(), 2);
    EXPECT_THAT(unknown.err(), HasSubstr(std::string("prompt: the model has not learnt ") + which));
  }
  tool tested({"test", "--model-file", path("t.safetensors"), "--data", data});
  EXPECT_EQ(tested.code(), 0) << tested.err();
  tool predicted({"predict", "--model-file", path("t.safetensors"), "--data", data});
  EXPECT_EQ(predicted.code(), 2);
  EXPECT_THAT(predicted.err(), HasSubstr("'mailgrad generate' writes with it"));
}

/// Whoever made the model chose its vocabulary.
TEST_F(TrainedModel, MovesNoCursorOfATerminal) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a\x1b[2J\n";
  const std::string data = folder_.write("t.txt", text).string();
  tool train({"train", "--model", "gpt:layers=1,width=8,heads=1", "--data", data, "--window", "4", "--batch",
              "4", "--steps", "1", "--save", path("t.safetensors"), "--quiet"});
  ASSERT_EQ(train.code(), 0) << train.err();
  const std::vector<std::string> words{"generate", "--model-file", path("t.safetensors"), "--length", "100"};
  tool to_a_file(words);
  EXPECT_THAT(to_a_file.out(), HasSubstr("\x1b")) << "raw";
  const terminal screen;
  {
    tool to_a_terminal(words, screen.name().c_str());
    EXPECT_EQ(to_a_terminal.code(), 0) << to_a_terminal.err();
  }
  const std::string shown = screen.read_until_closed();
  EXPECT_THAT(shown, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b"))));
}

TEST_F(TrainedModel, IsComputedByTheHostOrByAGpuThatIsThere) {
  const std::string model = trained();
  for (const char* command : {"test", "predict"}) {
    tool plain({command, "--model-file", model, "--data", path("rows.csv")});
    tool named({command, "--model-file", model, "--data", path("rows.csv"), "--device", "cpu"});
    EXPECT_EQ(named.code(), 0) << named.err();
    EXPECT_EQ(named.out(), plain.out());
  }
  for (const char* command : {"test", "predict", "generate"})
    for (const auto& [where, why] :
         {std::pair("cuda:99", "device cuda:99 is not available; this machine has cpu:0"),
          std::pair("cuda:0/1",
                    "--device cuda:0/1: the whole host or a GPU computes, and no core or stream is "
                    "chosen; name 'cuda:0'"),
          std::pair("cpu:1", "no core or stream is chosen; name 'cpu'"), std::pair("gpu", "gpu")}) {
      std::vector<std::string> words{command, "--model-file", model, "--device", where};
      if (words[0] != "generate") words.insert(words.end(), {"--data", path("rows.csv")});
      tool t(words);
      EXPECT_EQ(t.code(), 2) << where;
      EXPECT_THAT(t.err(), HasSubstr(why));
      EXPECT_THAT(lines_of(t.err()), SizeIs(1)) << t.err();
    }
}

TEST_F(TrainedModel, WhoseGpuLacksMemoryIsComputedByTheHostIfTheOptionIsLeftOut) {
  const auto lacking = []() -> int { throw out_of_memory("cuda:0: out of memory: 1.0 GiB asked for"); };
  EXPECT_THAT([&] { with_advice(lacking); },
              ::testing::ThrowsMessage<out_of_memory>(
                  "cuda:0: out of memory: 1.0 GiB asked for; leave --device out, and the host computes"));
  EXPECT_EQ(with_advice([] { return 3; }), 3);
}

TEST_F(TrainedModel, IsComputedNowhereByExport) {
  tool t({"export", "--model-file", trained(), "--onnx", path("t.onnx"), "--device", "cpu"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("--device"));
  EXPECT_THAT(lines_of(t.err()), SizeIs(1)) << t.err();
}

TEST_F(TrainedModel, IsRefusedInOneLine) {
  const std::string model = trained();
  const auto refused = [&](const std::vector<std::string>& words, const char* why) {
    tool t(words);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_THAT(lines_of(t.err()), SizeIs(1)) << t.err();
  };
  refused({"test", "--model-file", path("none"), "--data", path("rows.csv")}, "cannot be read: No such file");
  refused({"test", "--model-file", path("rows.csv"), "--data", path("rows.csv")},
          "expected a safetensors file, as 'mailgrad train --save' writes it, found one that begins with the "
          "text '");
  refused({"test", "--model-file", model}, "--data");
  refused({"test", "--data", path("rows.csv")}, "--model-file");
  refused({"predict", "--model-file", model},
          "either a data set by --data, or rows of numbers by --rows, or pictures by --picture-files");
  refused({"predict", "--model-file", model, "--rows", path("none")}, "none: cannot be read");
  refused({"predict", "--model-file", model, "--rows", folder_.path().string()},
          "cannot be read: Is a directory");
  refused({"predict", "--model-file", model, "--rows", path("rows.csv")},
          "expected 2 fields, as the model reads them, found 3");
  refused({"predict", "--model-file", model, "--rows", path("rows.csv"), "--picture-files", path("rows.csv")},
          "either a data set by --data");
  refused({"predict", "--model-file", model, "--picture-files", path("rows.csv")},
          "--picture-files: the model reads samples of 2, and pictures have");
  refused(
      {"generate", "--model-file", model},
      "generate: the model is none of texts, but reads samples of 2; 'mailgrad predict' prints its answers");
  refused({"test", "--model-file", model, "--data", path("rows.csv"), "--report", model}, "both name");
}

} // namespace
} // namespace mailgrad
