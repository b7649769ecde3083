#include <mailgrad/tests/cli/tool.hpp>

#include <mailgrad/cli/commands/trained_model.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/safetensors.hpp>

#include <cstring>
#include <regex>
#include <set>

// Weights that a run of the tool keeps and begins with, and what the tool does with a model: test, predict,
// generate, graph.

namespace mailgrad::testing {
namespace {

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

struct TrainedModel : ToolTest {
  /// Trains a model of two numbers and two words. Class "large" has large first numbers, "tall, thin" large
  /// second ones.
  void train_model() const {
    std::string rows = "w,h,label\n";
    for (int i = 0; i < 60; ++i)
      rows += i % 2 == 0 ? std::to_string(90 + i % 7) + ",3,large\n"
                         : "2," + std::to_string(80 + i % 9) + ",\"tall, thin\"\n";
    folder.write("rows.csv", rows);
    done("train --model softmax --batch 8 --epochs 40 --lr 0.5 --quiet --data"_w + data + "--save" + model);
  }
  /// What a command says of the model and `more`.
  spoken by(const std::string& command, const words& more) const {
    return done(words{command, "--model-file", model} + more);
  }
  std::string refused_by(const std::string& command, const words& more) const {
    return refusal(words{command, "--model-file", model} + more);
  }
  std::string file(const std::string& name, const std::string& bytes) const {
    return folder.write(name, bytes);
  }

  const std::string data = path("rows.csv"), model = path("m.safetensors");
};

/// Copies a safetensors file without what it tells of its model.
void weights_alone(const std::string& from, const std::string& to) {
  std::string bytes = content_of(from);
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  nlohmann::json tensors = nlohmann::json::parse(bytes.substr(8, size));
  tensors.erase("__metadata__");
  std::string bare = tensors.dump();
  bare.resize(size, ' ');
  std::ofstream(to, std::ios::binary) << bytes.replace(8, size, bare);
}

TEST_F(TrainedModel, SaysOfBothWhereDataAreOfAnotherKind) {
  train_model();
  std::string all;
  for (int i = 0; i < 400; ++i) all += i % 3 == 0 ? "the cat " : "a mat ";
  const std::string text = file("words.txt", all);
  EXPECT_EQ(refused_by("test", {"--data", text}),
            "mailgrad: '" + model + "' reads rows of 2 numbers, and '" + text + "' has text\n");
  for (const auto& [of, from, why] :
       {std::tuple{"lenet", text, "lenet reads pictures, and 'words.txt' has text: take gpt"},
        {"mlp:hidden=5", text, "mlp reads no text, and 'words.txt' has text: take gpt"},
        {"lenet", data, "lenet reads pictures, and 'rows.csv' has rows of 2 numbers: take mlp or softmax"},
        {"gpt", data, "gpt reads text, and 'rows.csv' has rows of 2 numbers: take mlp or softmax"}})
    expect_error({"train", "--model", of, "--data", from, "--batch", "8"},
                 "mailgrad: " + std::string(why) + '\n');
}

TEST_F(TrainedModel, IsTestedOnAllRowsOfAFile) {
  train_model();
  EXPECT_THAT(by("test", {"--data", data, "--report", path("test.json")}).out,
              HasAll("60 samples", "accuracy      1.0000", "tall, thin"));
  const nlohmann::json found = report("test.json");
  EXPECT_EQ(found["samples"], 60);
  EXPECT_EQ(found["accuracy"], 1.0);
  EXPECT_EQ(found["classes"][0],
            nlohmann::json::parse(R"({"name":"large","samples":30,"precision":1.0,"recall":1.0})"));
  EXPECT_EQ(found["confusion"], nlohmann::json::parse("[[30,0],[0,30]]"));
}

/// The numbers are divided as in training, though other rows would give other divisors; and labels keep their
/// numbers, though the file has only one.
TEST_F(TrainedModel, ReadsOtherFilesAsItsOwn) {
  train_model();
  EXPECT_THAT(by("test", {"--data", file("other.csv", "w,h,label\n1,95,\"tall, thin\"\n")}).out,
              HasSubstr("accuracy      1.0000"));
  EXPECT_THAT(refused_by("test", {"--data", file("unknown.csv", "w,h,label\n1,95,round\n")}),
              HasSubstr("line 2: expected one of the 2 labels 'large', 'tall, thin', found 'round'"));
  EXPECT_THAT(refused_by("test", {"--data", file("wide.csv", "1,2,3,large\n")}),
              HasSubstr("line 1: expected 3 columns, found 4"));
}

TEST_F(TrainedModel, OfWeightsAloneIsTheOneThatIsNamed) {
  train_model();
  const std::string bare = path("bare.safetensors");
  weights_alone(model, bare);
  const words named = "--model softmax --model-file"_w + bare;
  for (const char* command : {"test", "predict"}) {
    expect_error({command, "--model-file", bare, "--data", data}, "'" + bare + "' names no model", "--model");
    done(words{command, "--data", data} + named);
    EXPECT_THAT(refused_by(command, {"--model", "softmax", "--data", data}),
                HasSubstr("names its model itself; leave --model out"));
    expect_error({command, "--model-file", bare, "--model", "mlp", "--data", data}, "bare.safetensors");
  }
  EXPECT_THAT(done("test --data"_w + data + named).out, HasSubstr("accuracy      1.0000"));
  EXPECT_EQ(done("predict --data"_w + data + named).out, by("predict", {"--data", data}).out)
      << "numbers are divided as in training";
  expect_error("predict --rows"_w + data + named, "name a data set by --data");
}

TEST_F(TrainedModel, PredictsRowsWithoutLabels) {
  train_model();
  const words rows = {"--rows", file("new.csv", "w,h\n94,2\n1,85\n")};
  EXPECT_THAT(lines_of(by("predict", rows).out),
              ElementsAre("class,probability,large,\"tall, thin\"", StartsWith("large,0."),
                          StartsWith("\"tall, thin\",0.")));
  const json second = json::parse(lines_of(by("predict", rows + "--format jsonl"_w).out).at(1));
  EXPECT_EQ(second["class"], "tall, thin");
  EXPECT_EQ(second["probability"], second["probabilities"][1]);
  EXPECT_NEAR(second["probabilities"][0].get<double>() + second["probabilities"][1].get<double>(), 1, 1e-6);
}

/// The same numbers give the same answers, whether they are written as a text or as an array.
TEST_F(TrainedModel, PredictsAnArrayOfSamples) {
  train_model();
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n";
  const std::string array =
      std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  const std::string named = file("new.npy", array + "\x5e\x02\x01\x55");
  const std::string answers = by("predict", {"--rows", file("new.csv", "94,2\n1,85\n")}).out;
  EXPECT_THAT(lines_of(answers), SizeIs(3));
  for (const char* option : {"--rows", "--data"})
    EXPECT_EQ(by("predict", {option, named}).out, answers) << option;
  EXPECT_THAT(refused_by("predict", {"--rows", file("cut.npy", array + "\x5e\x02\x01")}),
              HasSubstr("array 'cut': its shape of 2x2 needs 4 numbers of 1 bytes, found 3 bytes"));
}

TEST_F(TrainedModel, PredictsSamplesOfADataSetAsItsTestDoes) {
  train_model();
  const words lines = lines_of(by("predict", {"--data", data}).out);
  ASSERT_THAT(lines, SizeIs(61));
  EXPECT_THAT(lines[1], StartsWith("large"));
  EXPECT_THAT(lines[2], StartsWith("\"tall"));
}

/// As of other programs that write more than somebody wants to read.
TEST_F(TrainedModel, EndsInSilenceWhenItsReaderHasSeenEnough) {
  train_model();
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "94,2\n";
  const std::string rows = file("many.csv", many);
  const std::string command = "bash -c '\"" MAILGRAD_TOOL "\" predict --model-file \"" + model +
                              "\" --rows \"" + rows + "\" 2>\"" + path("err") + "\" | head -n 1 >\"" +
                              path("out") + "\"; exit ${PIPESTATUS[0]}'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(lines_of(content_of(path("err"))), ElementsAre(StartsWith("read as ")));
  EXPECT_GT(std::filesystem::file_size(path("out")), 0U);
  tool full({"predict", "--model-file", model, "--rows", rows}, "/dev/full");
  EXPECT_EQ(full.code(), 1);
  EXPECT_THAT(full.err(), HasSubstr("answers cannot be written: No space left on device"));
}

TEST_F(TrainedModel, PredictsNumbers) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += std::to_string(i % 5) + ",1," + std::to_string(2 * (i % 5) + 1) + "\n";
  const std::string line = file("line.csv", rows);
  done("train --model softmax --task regression --batch 8 --epochs 200 --lr 0.1 --quiet --data"_w + line +
       "--save" + model);
  const words answers = lines_of(by("predict", {"--rows", file("ask.csv", "3,1\n0,1\n")}).out);
  ASSERT_THAT(answers, SizeIs(3));
  EXPECT_EQ(answers[0], "number");
  EXPECT_NEAR(std::stod(answers[1]), 7, 0.2);
  EXPECT_NEAR(std::stod(answers[2]), 1, 0.2);
  EXPECT_THAT(by("test", {"--data", line}).out, HasSubstr("RMSE"));
}

TEST_F(TrainedModel, GeneratesTheSameTextFromTheSameSeed) {
  std::string all;
  for (int i = 0; i < 60; ++i) all += "abcdeabcde\n"; // 11 symbols, so that windows of 8 begin at each
  const std::string text = file("t.txt", all);
  done("train --model gpt:layers=1,width=16,heads=2 --window 8 --batch 4 --epochs 150 --optimizer adam "
       "--lr 0.01 --quiet --data"_w +
       text + "--save" + model);
  const auto written = [&](const words& more) { return by("generate", "--length 12"_w + more).out; };
  EXPECT_EQ(written("--seed 4"_w), written("--seed 4"_w));
  EXPECT_THAT(written("--prompt abc --temperature 0"_w),
              AnyOf(StartsWith("deabcde\nabc"), StartsWith("de\nabcdeabcd"))) // "abc" stands in both halves
      << "how the products round decides";
  for (const auto& [prompt, which] :
       {std::pair("abx", "character 3, 'x', U+0078"),
        std::pair("a\xc3\xa9", "character 2, '\xc3\xa9', U+00E9"), std::pair("a\t", "character 2, U+0009"),
        std::pair("\xff", "character 1, byte 0xff")})
    EXPECT_THAT(refused_by("generate", {"--prompt", prompt}),
                HasSubstr(std::string("prompt: the model has not learnt ") + which));
  by("test", {"--data", text});
  EXPECT_THAT(refused_by("predict", {"--data", text}), HasSubstr("'mailgrad generate' writes with it"));
}

/// Whoever made the model chose its vocabulary.
TEST_F(TrainedModel, MovesNoCursorOfATerminal) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a\x1b[2J\n";
  done("train --model gpt:layers=1,width=8,heads=1 --window 4 --batch 4 --steps 1 --quiet --data"_w +
       file("t.txt", text) + "--save" + model);
  const words written{"generate", "--model-file", model, "--length", "100"};
  EXPECT_THAT(tool(written).out(), HasSubstr("\x1b")) << "raw";
  const terminal screen;
  {
    tool to_a_terminal(written, screen.name().c_str());
    EXPECT_EQ(to_a_terminal.code(), 0) << to_a_terminal.err();
  }
  EXPECT_THAT(screen.read_until_closed(), AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b"))));
}

TEST_F(TrainedModel, IsComputedByTheHostOrByAGpuThatIsThere) {
  train_model();
  for (const char* command : {"test", "predict"})
    EXPECT_EQ(by(command, {"--data", data, "--device", "cpu"}).out, by(command, {"--data", data}).out);
  for (const words& command : {"test --data"_w + data, "predict --data"_w + data, "generate"_w})
    for (const auto& [where, why] :
         {std::pair("cuda:99", "device cuda:99 is not available; this machine has cpu:0"),
          std::pair("cuda:0/1",
                    "--device cuda:0/1: the whole host or a GPU computes, and no core or stream is "
                    "chosen; name 'cuda:0'"),
          std::pair("cpu:1", "no core or stream is chosen; name 'cpu'"), std::pair("gpu", "gpu")})
      expect_refused(command + "--device" + where + "--model-file" + model, why);
}

TEST_F(TrainedModel, WhoseGpuLacksMemoryIsComputedByTheHostIfTheOptionIsLeftOut) {
  const auto lacking = []() -> int { throw out_of_memory("cuda:0: out of memory: 1.0 GiB asked for"); };
  EXPECT_THAT([&] { with_advice(lacking); },
              ThrowsMessage<out_of_memory>(
                  "cuda:0: out of memory: 1.0 GiB asked for; leave --device out, and the host computes"));
  EXPECT_EQ(with_advice([] { return 3; }), 3);
}

TEST_F(TrainedModel, IsComputedNowhereByExport) {
  train_model();
  expect_refused({"export", "--model-file", model, "--onnx", path("t.onnx"), "--device", "cpu"}, "--device");
}

TEST_F(TrainedModel, IsRefusedInOneLine) {
  train_model();
  expect_refused({"test", "--model-file", path("none"), "--data", data}, "cannot be read: No such file");
  expect_refused({"test", "--model-file", data, "--data", data},
                 "expected a safetensors file, as 'mailgrad train --save' writes it, found one that begins "
                 "with the text '");
  expect_refused({"test", "--data", data}, "--model-file");
  for (const auto& [command, more, why] :
       {std::tuple{"test", words{}, "--data"},
        {"predict",
         {},
         "either a data set by --data, or rows of numbers by --rows, or pictures by --picture-files"},
        {"predict", {"--rows", path("none")}, "none: cannot be read"},
        {"predict", "--rows"_w + folder.path(), "cannot be read: Is a directory"},
        {"predict", {"--rows", data}, "expected 2 fields, as the model reads them, found 3"},
        {"predict", {"--rows", data, "--picture-files", data}, "either a data set by --data"},
        {"predict",
         {"--picture-files", data},
         "--picture-files: the model reads samples of 2, and pictures have"},
        {"generate",
         {},
         "generate: the model is none of texts, but reads samples of 2; 'mailgrad predict' prints its "
         "answers"},
        {"test", {"--data", data, "--report", model}, "both name"}})
    expect_refused(words{command, "--model-file", model} + more, why);
}

/// Runs that keep their weights, or begin with those of another.
struct Weights : ToolTest {
  static words train(const words& more, const std::string& model = "mlp:hidden=5") {
    return testing::train("--steps 20 --quiet"_w + more, model);
  }
  const std::string saved = path("m.safetensors");
};

TEST_F(Weights, AreSavedWithWhatIsNeededToUseThem) {
  done(train("--save"_w + saved + "--report" + path("run.json")));
  const saved_weights read = load_weights(saved);
  ASSERT_TRUE(read.card);
  EXPECT_EQ(read.card->model, "mlp:hidden=5");
  EXPECT_EQ(read.card->class_names.size(), read.card->request.classes);
  EXPECT_FALSE(read.card->divisors.empty()) << "the numbers of a CSV file are divided";
  EXPECT_NE(read.find("dense1/weights"), nullptr);
  EXPECT_EQ(json::parse(read.report)["parameters_sha256"], report()["parameters_sha256"]);
}

/// A run may be continued although its model file is gone.
TEST_F(Weights, HoldTheContentOfAModelFile) {
  const std::string file =
      folder.write("net.json", "\n {\"layers\": [{\"dense\": {\"units\": 3, \"activation\": \"tanh\"}}]}");
  done(train("--save"_w + saved, file));
  const std::string content = load_weights(saved).card->model;
  EXPECT_TRUE(content.starts_with("{\"layers\"")) << content;
  std::filesystem::remove(file);
  done(train("--load"_w + saved, content));
}

TEST_F(Weights, AreWhatTheNextRunBeginsWith) {
  done(train("--save"_w + saved));
  done(train("--load"_w + saved + "--lr 1e-30 --save"_w + path("n.safetensors")));
  const saved_weights a = load_weights(saved), b = load_weights(path("n.safetensors"));
  for (const saved_weights::variable& v : a.variables)
    EXPECT_THAT(b.find(v.name)->values.values(), ElementsAreArray(v.values.values())) << v.name;
}

TEST_F(Weights, OfAnotherModelNameTheFirstDifference) {
  done(train("--save"_w + saved));
  tool other(train("--load"_w + saved, "mlp:hidden=6"));
  EXPECT_NE(other.code(), 0);
  EXPECT_THAT(other.err(), HasAll("m.safetensors': variable 'dense1/weights' is", "2 more differences"));
  const words lax = "--load-strict no --load"_w + saved;
  EXPECT_THAT(done(train(lax, "mlp:hidden=6")).err,
              HasAll("took 1 of 4 variables of '", "variable 'dense2/weights' is"));
  expect_error(train(lax, "softmax"), "m.safetensors' fit no variable of the model, so nothing was loaded: ");
}

TEST_F(Weights, AreRefusedWhereTheyAreDamaged) {
  done(train("--save"_w + saved));
  const std::string whole = content_of(saved);
  folder.write("cut.safetensors", whole.substr(0, whole.size() - 1));
  tool cut(train("--load"_w + path("cut.safetensors"))), none(train("--load"_w + path("none.safetensors")));
  EXPECT_NE(cut.code(), 0);
  EXPECT_THAT(cut.err(), HasSubstr("cut.safetensors: the arrays take"));
  EXPECT_NE(none.code(), 0);
  EXPECT_THAT(none.err(), HasSubstr("cannot be read: No such file"));
}

/// An hour of training is not spent before it is known that the weights cannot be kept.
TEST_F(Weights, AreRefusedAPlaceBeforeTheRun) {
  const auto refused = [](const words& more, const char* why) {
    tool t(train(more));
    EXPECT_NE(t.code(), 0) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_THAT(t.out(), Not(HasSubstr("completed"))) << "it has trained";
  };
  refused("--save"_w + path("none/m"), "cannot be written: No such file");
  refused("--save"_w + folder.path(), "Is a directory");
  refused("--save -"_w, "weights are no output for a pipe");
  refused("--save /dev/full"_w, "is a pipe or a device");
  refused("--save"_w + path("a") + "--report" + path("a"), "--report and --save both name");
  const std::string copy = folder.write("copy.csv", content_of(MAILGRAD_SMALL_CSV));
  expect_error({"train", "--data", copy, "--save", copy}, "both name");
  EXPECT_EQ(content_of(copy), content_of(MAILGRAD_SMALL_CSV));
  refused("--load-strict no"_w, "--load");
}

TEST_F(Weights, ThatAreNotFiniteReplaceNoOthers) {
  folder.write("m.safetensors", "what was there");
  refusal(train("--lr 1e30 --save"_w + saved), 5);
  EXPECT_EQ(content_of(saved), "what was there");
}

/// All outputs of a run go to the same full disk.
TEST_F(Weights, AreWrittenThoughTheReportCannotBe) {
  EXPECT_THAT(refusal(train("--report /dev/full --trace /dev/full --save"_w + saved), 1),
              HasAll("report '/dev/full' cannot be written: No space left on device",
                     "trace '/dev/full' cannot be written: No space left on device"));
  EXPECT_NE(load_weights(saved).find("dense1/weights"), nullptr);
}

TEST_F(Weights, AreThoseOfTheModelFileThatTheRunHasRead) {
  const std::string model = folder.write("model.json", R"({"layers":[{"dense":{}}]})");
  tool t(testing::train("--epochs 1000000000 --save"_w + saved, model));
  ASSERT_TRUE(t.says("to train on")) << t.err();
  std::filesystem::remove(model);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  EXPECT_EQ(load_weights(saved).card.value().model, R"({"layers":[{"dense":{}}]})");
}

TEST_F(Weights, ThatAreNotFiniteBeginNoRun) {
  const std::vector<float> bad{1, std::numeric_limits<float>::quiet_NaN()};
  save_weights(saved, std::vector<named_weights>{{"dense1/bias", {2}, bad}}, {});
  expect_error(train("--load-strict no --load"_w + saved),
               "m.safetensors: array 'dense1/bias': number 1 is nan; weights must be finite");
}

/// The folder for temporary files is another one when the place of the weights fails at the end.
TEST_F(Weights, AreRescuedIfTheirPlaceIsGoneAtTheEnd) {
  const std::string there = path("there"), rescue = path("rescue");
  std::filesystem::create_directory(there);
  std::filesystem::create_directory(rescue);
  setenv("TMPDIR", rescue.c_str(), 1);
  tool t(testing::train("--epochs 1000000000 --save"_w + (there + "/m.safetensors")));
  unsetenv("TMPDIR");
  ASSERT_TRUE(t.says("to train on")) << t.err();
  std::filesystem::remove_all(there);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasAll("cannot be written: No such file", "; they are in '"));
  std::size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(rescue)) {
    EXPECT_NE(load_weights(file.path()).find("dense1/weights"), nullptr);
    ++found;
  }
  EXPECT_EQ(found, 1U);
}

/// Names that a line of Graphviz declares or connects.
words found(const std::string& text, const std::regex& pattern, std::size_t group) {
  words names;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
    names.push_back((*i)[group].str());
  return names;
}

class GraphOfModel : public TestWithParam<const char*> {};

TEST_P(GraphOfModel, IsAPictureInTheLanguageOfGraphviz) {
  for (const words& more : {words{}, "--gradients"_w}) {
    const std::string picture = done("graph --model"_w + GetParam() + more).out;
    EXPECT_THAT(picture, StartsWith("digraph"));
    EXPECT_EQ(std::ranges::count(picture, '{'), std::ranges::count(picture, '}'));
    EXPECT_EQ(std::ranges::count(picture, '"') % 2, 0);
    const words declared = found(picture, std::regex(R"re(\n\s*"?(\w+)"?\s*\[)re"), 1);
    const std::set<std::string> nodes(declared.begin(), declared.end());
    EXPECT_GT(nodes.size(), 3U) << picture;
    const std::regex edge(R"re("?(\w+)"?(:\w+)?\s*->\s*"?(\w+)"?)re");
    EXPECT_GT(found(picture, edge, 1).size(), 3U) << picture;
    for (const std::size_t end : {1U, 3U})
      for (const std::string& name : found(picture, edge, end)) EXPECT_TRUE(nodes.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, GraphOfModel, Values("softmax", "mlp", "lenet"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Tool, GrowsThePictureByTheBackwardPass) {
  const std::string forward = done("graph --model mlp"_w).out,
                    both = done("graph --model mlp --gradients"_w).out;
  EXPECT_GT(std::ranges::count(both, '\n'), std::ranges::count(forward, '\n'));
}

TEST(Tool, RefusesAPictureThatCannotBeWritten) {
  expect_refused("graph --model mlp --output /no/such/folder/mlp.dot"_w, "/no/such/folder/mlp.dot");
}

struct GraphFile : ToolTest {
  static std::string shown(const words& options) { return done("graph"_w + options).out; }
  static void expect_none(const words& options, const std::string& why) {
    tool t("graph"_w + options);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(why)));
    EXPECT_EQ(t.out(), "");
  }

  const std::string file = path("g.graph");
};

TEST_F(GraphFile, IsDrawnAsTheModelIs) {
  for (const char* model : {"softmax", "mlp", "lenet"})
    for (const words& more : {words{}, "--gradients"_w}) {
      const words options = "--model"_w + model + more;
      EXPECT_EQ(shown(options + "--out"_w + file), "") << "the picture gives way to the graph";
      EXPECT_EQ(shown(words{file} + more), shown(options)) << model;
    }
}

TEST_F(GraphFile, GetsItsGradientsFromTheReaderIfItHasNone) {
  shown("--model mlp --out"_w + file);
  EXPECT_EQ(shown({file, "--gradients"}), shown("--model mlp --gradients"_w));
}

TEST_F(GraphFile, KeepsThePlacesOfAPipeline) {
  const words placed = "--gradients --devices cpu:0,cpu:1"_w, options = "--model mlp --pipeline"_w + placed;
  shown(options + "--out"_w + file);
  EXPECT_EQ(shown(words{file} + placed), shown(options));
}

TEST_F(GraphFile, IsWrittenToStandardOutputToo) {
  shown("--model softmax --out"_w + file);
  EXPECT_EQ(shown("--model softmax --out -"_w), content_of(file));
}

TEST_F(GraphFile, IsRefusedInOneLineIfItIsNone) {
  shown("--model softmax --out"_w + file);
  const std::string whole = content_of(file);
  std::string damaged = whole;
  damaged.back() ^= 1;
  for (const auto& [content, why] :
       {std::pair{whole.substr(0, whole.size() / 2), "bad: graph: byte 12: expected "},
        {"digraph {}", "bad: graph: byte 10: expected a header of 24 bytes, found 10"},
        {std::string(100, 'x'), "bad: graph: byte 0: expected 'mgradgrf', found 'xxxxxxxx'"},
        {damaged, "bad: graph: "}})
    expect_none({folder.write("bad", content).string()}, why);
  expect_none({path("none")}, "none: cannot be read: No such file");
  expect_none({folder.path().string()}, "cannot be read: Is a directory");
}

TEST_F(GraphFile, IsNotMixedUpWithAModel) {
  shown("--model softmax --out"_w + file);
  expect_none({file, "--model", "mlp"}, "exclude each other");
  expect_none(words{file} + "--pipeline --devices cpu:0,cpu:1"_w, "exclude each other");
  expect_none("--model mlp --out"_w + file + "--output x"_w, "--output and --out exclude each other");
  const std::string before = content_of(file);
  expect_none({file, "--out", file}, "both name");
  EXPECT_EQ(content_of(file), before);
}

} // namespace
} // namespace mailgrad::testing
