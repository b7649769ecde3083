#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

// Files of weights, between this program and Python's packages safetensors, torch and numpy. MAILGRAD_PYTHON
// names the interpreter, by default python3.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

class WeightsInPython : public ::testing::Test {
protected:
  /// What the script prints. Skips the test where the package is missing.
  void run(const std::string& what, std::string& printed) const { run(what, path_, printed); }
  static void run(const std::string& what, const std::filesystem::path& path, std::string& printed) {
    const char* python = std::getenv("MAILGRAD_PYTHON");
    const std::string command = std::string(python ? python : "python3") + " " MAILGRAD_OPEN_WEIGHTS " " +
                                what + " '" + path.string() + "'";
    std::FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) printed += static_cast<char>(c);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
      GTEST_SKIP() << "this machine has no Python with the package that is needed";
    ASSERT_EQ(status, 0) << command;
  }

  /// The script opens weights of ours in this way, and finds all that is in the file.
  void expect_opened_by(const std::string& what) const {
    std::vector<float> numbers(12);
    std::iota(numbers.begin(), numbers.end(), 1.0F);
    model_card card;
    card.model = "softmax";
    save_weights(
        path_,
        std::vector<named_weights>{{"dense1/weights", {3, 4}, numbers}, {"one", {}, {numbers.data(), 1}}},
        card, R"({"ended":"completed"})");
    std::string printed;
    run(what, printed);
    if (IsSkipped()) return;
    const auto found = nlohmann::json::parse(printed);
    EXPECT_EQ(found["arrays"], nlohmann::json::parse(R"({"dense1/weights":[[3,4],78.0],"one":[[],1.0]})"));
    EXPECT_EQ(found["metadata"]["report"], R"({"ended":"completed"})");
    EXPECT_EQ(parse_model_card(found["metadata"]["mailgrad"].get<std::string>()).model, "softmax");
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "m.safetensors";
};

TEST_F(WeightsInPython, AreOpenedThere) { expect_opened_by("read"); }

TEST_F(WeightsInPython, AreReadFromThere) {
  std::string printed;
  run("write", printed);
  if (IsSkipped()) return;
  const saved_weights read = load_weights(path_);
  EXPECT_FALSE(read.card);
  EXPECT_THAT(read.find("half")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read.find("single")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read.find("double")->values.values(), ElementsAre(0, 0.125, 0.25, 0.375, 0.5, 0.625));
  EXPECT_EQ(read.find("double")->values.dims(), (shape{2, 3}));
}

TEST_F(WeightsInPython, AreOpenedByPyTorch) { expect_opened_by("read-torch"); }

/// With bfloat16, and with the whole number that counts the batches of a normalisation, which is no weight.
TEST_F(WeightsInPython, AreReadFromPyTorch) {
  std::string printed;
  run("write-torch", printed);
  if (IsSkipped()) return;
  const saved_weights read = load_weights(path_);
  EXPECT_FALSE(read.card);
  EXPECT_EQ(read.find("0.weight")->values.dims(), (shape{2, 3}));
  EXPECT_THAT(read.find("0.weight")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read.find("half")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read.find("brain")->values.values(), ElementsAre(0, 0.125, 0.25, 0.375, 0.5, 0.625));
  EXPECT_THAT(read.find("1.running_var")->values.values(), ElementsAre(1, 1));
  EXPECT_EQ(read.find("1.num_batches_tracked"), nullptr);
  EXPECT_THAT(read.others,
              ElementsAre(::testing::HasSubstr("'1.num_batches_tracked' holds numbers of type 'I64'")));
}

TEST_F(WeightsInPython, AreOpenedByNumpy) {
  const std::filesystem::path path = folder_.path() / "m.npz";
  std::vector<float> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  model_card card;
  card.model = "softmax";
  save_weights(
      path, std::vector<named_weights>{{"dense1/weights", {3, 4}, numbers}, {"one", {}, {numbers.data(), 1}}},
      card, R"({"ended":"completed"})");
  std::string printed;
  run("read-npz", path, printed);
  if (IsSkipped()) return;
  const auto found = nlohmann::json::parse(printed);
  EXPECT_EQ(found["arrays"], nlohmann::json::parse(R"({"dense1/weights":[[3,4],78.0],"one":[[],1.0]})"));
  EXPECT_EQ(found["card"]["model"], "softmax");
  EXPECT_EQ(found["report"]["ended"], "completed");
}

TEST_F(WeightsInPython, AreReadFromNumpy) {
  const std::filesystem::path path = folder_.path() / "m.npz";
  for (const char* what : {"write-npz", "write-packed-npz"}) {
    std::string printed;
    run(what, path, printed);
    if (IsSkipped()) return;
    const saved_weights read = load_weights(path);
    EXPECT_FALSE(read.card);
    EXPECT_THAT(read.find("half")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(read.find("a/single")->values.values(), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(read.find("double")->values.values(), ElementsAre(0, 0.125, 0.25, 0.375, 0.5, 0.625));
    EXPECT_EQ(read.find("double")->values.dims(), (shape{2, 3}));
    EXPECT_EQ(read.find("scalar")->values.dims(), shape());
  }
}

TEST_F(WeightsInPython, AreRefusedWhereNumpyPickles) {
  const std::filesystem::path path = folder_.path() / "m.npz";
  std::string printed;
  run("write-objects", path, printed);
  if (IsSkipped()) return;
  EXPECT_EQ(
      complaint([&] { load_weights(path); }),
      "m.npz: array 'objects': expected numbers, found Python objects, which would run code of the file");
}

} // namespace
} // namespace mailgrad
