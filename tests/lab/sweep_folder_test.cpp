#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

sweep three_cells() { return parse_sweep(R"({"grid": {"policy": ["async", "ssp:3,\"x\"", "sync"]}})"); }

sweep_row row_for(const sweep& s, std::size_t cell) {
  sweep_row row;
  row.cell = cell;
  row.values = s.values_of(cell);
  row.ended = "completed";
  row.steps = 400;
  row.test_accuracy = 0.1 + 0.2;
  row.virtual_seconds = std::numeric_limits<double>::min();
  row.command = "mailgrad lab run --policy='a, \"b\"'";
  return row;
}

class SweepFolder : public ::testing::Test {
protected:
  sweep_folder opened(old_rows what = old_rows::go_on, const std::string& program = "1") const {
    return {path_, s_, {program, {}}, what};
  }
  void add(std::size_t cell) const {
    opened().add(row_for(s_, cell), std::vector<curve_point>{{cell, 0.5, 20, 10, {}, 2.5}});
  }

  const scratch_folder home_;
  const std::filesystem::path path_ = home_.path() / "a" / "b";
  const sweep s_ = three_cells();
};

TEST_F(SweepFolder, ReadsRowsBackAsTheyWere) {
  add(2);
  add(1);
  const sweep_folder again = opened();
  ASSERT_EQ(again.rows().size(), 2U);
  const sweep_row read = again.rows()[0];
  const sweep_row expected = row_for(s_, 1);
  EXPECT_EQ(read.values, expected.values);
  EXPECT_EQ(read.test_accuracy, expected.test_accuracy);
  EXPECT_EQ(read.virtual_seconds, expected.virtual_seconds);
  EXPECT_EQ(read.command, expected.command);
  EXPECT_FALSE(read.test_loss);
  EXPECT_EQ(to_csv(read), to_csv(expected));
  EXPECT_THAT(again.missing(), ElementsAre(0U));
  ASSERT_EQ(again.curves().size(), 2U);
  EXPECT_EQ(figure_of(again.curves()[0], "test_loss"), 2.5);
}

TEST_F(SweepFolder, DropsATornLastRowAndItsCurve) {
  add(0);
  add(1);
  const std::string whole = text_of(path_ / "sweep.csv");
  std::filesystem::resize_file(path_ / "sweep.csv", whole.size() - 1);
  const sweep_folder again = opened();
  EXPECT_THAT(again.missing(), ElementsAre(1U, 2U));
  EXPECT_EQ(again.curves().size(), 1U);
  EXPECT_THAT(whole, StartsWith(text_of(path_ / "sweep.csv")));
  EXPECT_THAT(text_of(path_ / "curves.csv"), HasSubstr("\n0,0.5,20,10,,2.5,,\n"));
}

TEST_F(SweepFolder, RefusesRowsOfAnotherSweepOrProgram) {
  add(0);
  EXPECT_THAT(testing::words_of_refusal([&] { opened(old_rows::go_on, "2"); }),
              HasSubstr("of another program (1, this is 2)"));
  const sweep other = parse_sweep(R"({"grid": {"policy": ["async"]}})");
  EXPECT_THAT(testing::words_of_refusal([&] {
                sweep_folder(path_, other, {"1", {}}, old_rows::go_on);
              }),
              HasSubstr("of another sweep"));
  EXPECT_EQ(opened().rows().size(), 1U) << "a refusal changes nothing";
}

TEST_F(SweepFolder, RefusesRowsOfOtherContent) {
  const auto with = [&](const std::string& sum) {
    return sweep_folder(path_, s_, {"1", {{"data=a.csv", "ab"}, {"load=w.npz", sum}}}, old_rows::go_on);
  };
  with("12").add(row_for(s_, 0), {});
  EXPECT_THAT(testing::words_of_refusal([&] { with("34"); }),
              HasSubstr("sweep.csv has rows with another load=w.npz (SHA-256 12, this is 34)"));
  EXPECT_THAT(testing::words_of_refusal([&] { opened(); }), HasSubstr("has rows with other files"));
  EXPECT_EQ(with("12").rows().size(), 1U);
}

TEST_F(SweepFolder, SetsOldRowsAside) {
  add(0);
  const std::string before = text_of(path_ / "sweep.csv");
  EXPECT_THAT(opened(old_rows::set_aside, "2").rows(), IsEmpty());
  EXPECT_EQ(text_of(path_ / "sweep.csv.old"), before);
  EXPECT_THAT(text_of(path_ / "curves.csv.old"), HasSubstr("2.5"));
}

/// All three files have the same ending, also if one of them is set aside for the first time.
TEST_F(SweepFolder, LosesNoRowsThatWereSetAside) {
  add(0);
  const std::string first = text_of(path_ / "sweep.csv");
  opened(old_rows::set_aside, "2").add(row_for(s_, 1), {});
  const std::string second = text_of(path_ / "sweep.csv");
  EXPECT_THAT(opened(old_rows::set_aside, "3").rows(), IsEmpty());
  EXPECT_EQ(text_of(path_ / "sweep.csv.old"), first);
  EXPECT_EQ(text_of(path_ / "sweep.csv.old-2"), second);
  EXPECT_THAT(text_of(path_ / "curves.csv.old"), HasSubstr("2.5"));
  EXPECT_THAT(text_of(path_ / "sweep.json.old-2"), HasSubstr("\"program\": \"2\""));
}

TEST_F(SweepFolder, KeepsFilesOfItsNamesThatAreNoneOfASweep) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ / "curves.csv") << "x,y\n";
  std::ofstream(path_ / "sweep.json") << "{}";
  add(0);
  EXPECT_EQ(text_of(path_ / "curves.csv.old"), "x,y\n");
  EXPECT_EQ(text_of(path_ / "sweep.json.old"), "{}");
}

TEST_F(SweepFolder, RunsCellsThatFailedAgain) {
  sweep_row failed = row_for(s_, 0), diverged = row_for(s_, 1);
  failed.ended = "failed";
  diverged.ended = "diverged";
  {
    sweep_folder folder = opened();
    folder.add(failed, std::vector<curve_point>{{0, 0.5, 20, 10, {}, 2.5}});
    folder.add(diverged, {});
    EXPECT_THAT(folder.missing(), ElementsAre(2U));
  }
  const sweep_folder again = opened();
  EXPECT_THAT(again.missing(), ElementsAre(0U, 2U));
  EXPECT_THAT(again.curves(), IsEmpty());
}

/// The most bytes of a file that this process writes; a disk that is full says the same.
class most_file_bytes {
public:
  explicit most_file_bytes(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~most_file_bytes() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  most_file_bytes(const most_file_bytes&) = delete;
  most_file_bytes& operator=(const most_file_bytes&) = delete;

private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(SweepFolder, WritesNoRowWithoutItsCurve) {
  add(0);
  {
    sweep_folder folder = opened();
    const most_file_bytes full(2000);
    const std::vector<curve_point> curve(400, {1, 0.5, 20, 10, {}, 2.5});
    EXPECT_THROW(folder.add(row_for(s_, 1), curve), std::runtime_error);
  }
  const sweep_folder again = opened();
  EXPECT_THAT(again.missing(), ElementsAre(1U, 2U));
  EXPECT_EQ(again.curves().size(), 1U);
}

TEST_F(SweepFolder, RefusesLinesThatAreNoRows) {
  add(0);
  std::ofstream(path_ / "sweep.csv", std::ios::app) << "1,async,completed\n";
  EXPECT_THAT(testing::words_of_refusal([&] { opened(); }), HasSubstr("line 3 is no row of this sweep"));
}

TEST_F(SweepFolder, RefusesASecondWriter) {
  const sweep_folder first = opened();
  EXPECT_THAT(testing::words_of_refusal([&] { opened(); }), HasSubstr("another process runs a sweep there"));
}

TEST_F(SweepFolder, WantsNoRowsOfCellsThatAreLeftOut) {
  const sweep s = parse_sweep(R"({"grid": {"lr": [1, 2, 3]}, "without": [{"lr": 2}]})");
  sweep_folder folder(path_, s, {"1", {}}, old_rows::go_on);
  EXPECT_THAT(folder.missing(), ElementsAre(0U, 2U));
  folder.add(row_for(s, 0), {});
  EXPECT_THAT(folder.missing(), ElementsAre(2U));
}

TEST_F(SweepFolder, NeedsAPlaceForAFolder) {
  home_.write("file", "text");
  EXPECT_THAT(testing::words_of_refusal([&] {
                sweep_folder(home_.path() / "file", s_, {"1", {}}, old_rows::go_on);
              }),
              HasSubstr("is no folder"));
}

} // namespace
} // namespace mailgrad::lab
