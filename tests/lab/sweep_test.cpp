#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/sweep/sweep_summary.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

namespace mailgrad::lab {
namespace {

using namespace ::testing;
using testing::words_of_refusal;
using setting = sweep_setting;

constexpr const char* small_grid =
    R"({"run": {"epochs": 2}, "grid": {"policy": ["async", "ssp:3"], "lr": [0.1, 1e-3], "seed": [1, 2, 3]},
        "tune": "lr", "target": {"test_loss": 0.5}, "tests": 7})";

TEST(SweepFile, CountsItsCellsWithTheLastAxisFastest) {
  const sweep s = parse_sweep(small_grid);
  ASSERT_EQ(s.cells(), 12U);
  EXPECT_THAT(s.values_of(0), ElementsAre("async", "0.1", "1"));
  EXPECT_THAT(s.values_of(1), ElementsAre("async", "0.1", "2"));
  EXPECT_THAT(s.values_of(3), ElementsAre("async", "0.001", "1"));
  EXPECT_THAT(s.values_of(11), ElementsAre("ssp:3", "0.001", "3"));
}

TEST(SweepFile, GivesEachSeedItsOwnDelays) {
  const sweep s = parse_sweep(small_grid);
  EXPECT_THAT(s.settings_of(1),
              ElementsAre(setting{"epochs", "2"}, setting{"policy", "async"}, setting{"lr", "0.1"},
                          setting{"seed", "2"}, setting{"delays-seed", "2"}));
  const sweep prescribed = parse_sweep(R"({"run": {"delays-seed": 5}, "grid": {"seed": [1, 2]}})");
  EXPECT_THAT(prescribed.settings_of(1), ElementsAre(setting{"delays-seed", "5"}, setting{"seed", "2"}));
  const sweep flags = parse_sweep(R"({"run": {"own-samples": true}, "grid": {"interrupt": [false, true]}})");
  EXPECT_THAT(flags.settings_of(0),
              ElementsAre(setting{"own-samples", "true"}, setting{"interrupt", "false"}));
}

TEST(SweepFile, ReadsTheRest) {
  const sweep s = parse_sweep(small_grid);
  EXPECT_EQ(s.tune, "lr");
  EXPECT_EQ(s.tests, 7U);
  ASSERT_TRUE(s.target);
  EXPECT_TRUE(s.target->reached_by(0.4));
  EXPECT_FALSE(s.target->reached_by(0.6));
  const sweep of_accuracy = parse_sweep(R"({"grid": {"lr": [1]}, "target": {"test_accuracy": 0.9}})");
  EXPECT_TRUE(of_accuracy.target->reached_by(0.95));
  EXPECT_FALSE(of_accuracy.target->reached_by(0.85));
  EXPECT_EQ(of_accuracy.tests, 20U);
}

TEST(SweepFile, TestsARunNoMoreOftenThanAsked) {
  for (const std::uint64_t tests : {1U, 7U, 20U})
    for (std::uint64_t steps = 0; steps < 100; ++steps) {
      const std::uint64_t every = steps_between_tests(steps, tests);
      ASSERT_GE(every, 1U);
      const std::uint64_t before_the_end = steps == 0 ? 0 : (steps - 1) / every;
      EXPECT_LT(before_the_end, tests) << steps;
    }
  EXPECT_EQ(steps_between_tests(39, 20), 2U);
  EXPECT_EQ(steps_between_tests(60, 20), 3U);
}

TEST(SweepFile, LeavesCellsOut) {
  const sweep s =
      parse_sweep(R"({"grid": {"policy": ["async", "sync"], "cure": ["none", "inverse"], "lr": [1, 2]},
                                  "without": [{"policy": "sync", "cure": "inverse"}, {"lr": 2, "cure": "none"}]})");
  EXPECT_THAT(s.kept_cells(), ElementsAre(0U, 2U, 3U, 4U));
  EXPECT_EQ(parse_sweep(to_json(s)).kept_cells(), s.kept_cells());
}

TEST(SweepFile, HasOneFormByWhichTwoAreCompared) {
  for (const char* text :
       {small_grid, R"({"run": {"own-samples": true}, "grid": {"interrupt": [false, true]}})"})
    EXPECT_EQ(to_json(parse_sweep(text)), to_json(parse_sweep(to_json(parse_sweep(text)))));
  EXPECT_NE(to_json(parse_sweep(R"({"grid": {"lr": [1]}})")),
            to_json(parse_sweep(R"({"grid": {"lr": [2]}})")));
}

TEST(SweepFile, SaysInOneLineWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "line 1 is no JSON"},
      {"{\n\"run\": {},\n grid\n}", "line 3 is no JSON"},
      {"[]", "this is no JSON object"},
      {R"({"gird": {}})", "key 'gird' is unknown; did you mean 'grid'?"},
      {R"({"run": {}})", "'grid' is missing"},
      {R"({"grid": {}})", "'grid' is empty"},
      {R"({"grid": []})", "'grid' is no object"},
      {R"({"run": 1, "grid": {"lr": [1]}})", "'run' is no object"},
      {R"({"grid": {"lr": []}})", "grid: 'lr' has no value"},
      {R"({"grid": {"lr": 0.1}})", "grid: 'lr' is no list"},
      {R"({"grid": {"lr": [0.1, 0.10]}})", "grid: 'lr' has 0.1 twice"},
      {R"({"grid": {"lr": [1], "lr": [2]}})", "'lr' is there twice"},
      {R"({"grid": {"lr": [null]}})",
       "'lr' has null, which is no text, no number, and neither true nor false"},
      {R"({"grid": {"policy": ["a\nb"]}})", "'policy' has a line break"},
      {R"({"run": {"lr": 1}, "grid": {"lr": [1]}})", "'lr' is in 'run' and in 'grid'"},
      {R"({"grid": {"lr": [1]}, "tune": "batch"})", "tune: 'batch' is no option of 'grid'"},
      {R"({"grid": {"seed": [1]}, "tune": "seed"})", "tune: seeds are not tuned"},
      {R"({"grid": {"lr": [1]}, "target": {"test_acuracy": 1}})", "did you mean 'test_accuracy'?"},
      {R"({"grid": {"lr": [1]}, "target": {"test_loss": "x"}})", "target: 'test_loss' is no number"},
      {R"({"grid": {"lr": [1]}, "target": 0.9})", "'target' is no object"},
      {R"({"grid": {"lr": [1]}, "without": {}})", "'without' is no list"},
      {R"({"grid": {"lr": [1]}, "without": [{}]})", "'without' has an entry"},
      {R"({"grid": {"lr": [1]}, "without": [{"cure": "none"}]})", "without: 'cure' is no option of 'grid'"},
      {R"({"grid": {"lr": [1]}, "without": [{"lr": 2}]})", "without: 'lr' has no value 2 in 'grid'"},
      {R"({"grid": {"lr": [1]}, "without": [{"lr": 1}]})", "'without' leaves no cell"},
      {R"({"grid": {"lr": [1]}, "tests": 0})", "'tests' is no whole number"},
      {R"({"grid": {"lr": [1]}, "tests": 2.5})", "'tests' is no whole number"},
  };
  for (const auto& [text, says] : wrong)
    EXPECT_THAT(words_of_refusal([&text = text] { parse_sweep(text); }), HasSubstr(says)) << text;
  std::string values = "1";
  for (int i = 2; i <= 1000; ++i) values += ',' + std::to_string(i);
  const std::string many = "{\"grid\": {\"lr\": [" + values + "], \"seed\": [" + values + "]}}";
  EXPECT_THAT(words_of_refusal([&] { parse_sweep(many); }), HasSubstr("more than 100000 cells"));
}

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
  sweep_folder opened(const sweep_origin& origin = {"1"}, old_rows what = old_rows::go_on) const {
    return {path_, s_, origin, what};
  }
  std::string refusal(const sweep_origin& origin = {"1"}) const {
    return words_of_refusal([&] { opened(origin); });
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
  EXPECT_THAT(refusal({"2"}), HasSubstr("of another program (1, this is 2)"));
  const sweep other = parse_sweep(R"({"grid": {"policy": ["async"]}})");
  EXPECT_THAT(words_of_refusal([&] { sweep_folder(path_, other, {"1"}, old_rows::go_on); }),
              HasSubstr("of another sweep"));
  EXPECT_EQ(opened().rows().size(), 1U) << "a refusal changes nothing";
}

TEST_F(SweepFolder, RefusesRowsOfOtherContent) {
  const sweep_origin origin{"1", {{"data=a.csv", "ab"}, {"load=w.npz", "12"}}};
  opened(origin).add(row_for(s_, 0), {});
  EXPECT_THAT(refusal({"1", {{"data=a.csv", "ab"}, {"load=w.npz", "34"}}}),
              HasSubstr("sweep.csv has rows with another load=w.npz (SHA-256 12, this is 34)"));
  EXPECT_THAT(refusal(), HasSubstr("has rows with other files"));
  EXPECT_EQ(opened(origin).rows().size(), 1U);
}

/// All three files have the same ending, also if one of them is set aside for the first time.
TEST_F(SweepFolder, LosesNoRowsThatWereSetAside) {
  add(0);
  const std::string first = text_of(path_ / "sweep.csv");
  opened({"2"}, old_rows::set_aside).add(row_for(s_, 1), {});
  const std::string second = text_of(path_ / "sweep.csv");
  EXPECT_THAT(opened({"3"}, old_rows::set_aside).rows(), IsEmpty());
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
  EXPECT_THAT(refusal(), HasSubstr("line 3 is no row of this sweep"));
}

TEST_F(SweepFolder, RefusesASecondWriter) {
  const sweep_folder first = opened();
  EXPECT_THAT(refusal(), HasSubstr("another process runs a sweep there"));
}

TEST_F(SweepFolder, WantsNoRowsOfCellsThatAreLeftOut) {
  const sweep s = parse_sweep(R"({"grid": {"lr": [1, 2, 3]}, "without": [{"lr": 2}]})");
  sweep_folder folder(path_, s, {"1", {}}, old_rows::go_on);
  EXPECT_THAT(folder.missing(), ElementsAre(0U, 2U));
  folder.add(row_for(s, 0), {});
  EXPECT_THAT(folder.missing(), ElementsAre(2U));
}

TEST_F(SweepFolder, NeedsAPlaceForAFolder) {
  const std::filesystem::path file = home_.write("file", "text");
  EXPECT_THAT(words_of_refusal([&] { sweep_folder(file, s_, {"1"}, old_rows::go_on); }),
              HasSubstr("is no folder"));
}

constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Quartiles, AreInterpolatedAsNumpyDoes) {
  const quartiles q = quartiles_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(q.low, 1.75);
  EXPECT_DOUBLE_EQ(q.median, 2.5);
  EXPECT_DOUBLE_EQ(q.high, 3.25);
  EXPECT_EQ(quartiles_of({7}).low, 7);
  EXPECT_THROW(quartiles_of({}), std::invalid_argument);
}

TEST(Quartiles, TakeInfiniteNumbers) {
  const quartiles worst_high = quartiles_of({1, 2, infinite, infinite, infinite});
  EXPECT_EQ(worst_high.low, 2);
  EXPECT_EQ(worst_high.median, infinite);
  const quartiles worst_low = quartiles_of({-infinite, 1, 2});
  EXPECT_EQ(worst_low.low, -infinite);
  EXPECT_EQ(worst_low.median, 1);
}

/// The accuracy of a run falls with each digit of its cell's number, unless `edit` says otherwise.
template <class Edit>
std::vector<sweep_row> rows_for(const sweep& s, Edit edit) {
  std::vector<sweep_row> rows;
  for (std::size_t cell = 0; cell < s.cells(); ++cell) {
    sweep_row row;
    row.cell = cell;
    row.values = s.values_of(cell);
    row.ended = "completed";
    row.test_accuracy = 0.5;
    edit(row);
    rows.push_back(row);
  }
  return rows;
}

const char* two_policies = R"({"grid": {"policy": ["async", "sync"], "lr": [0.1, 1, 10], "seed": [1, 2, 3]},
                               "tune": "lr"})";

TEST(SweepSummary, TakesTheTunedValueWithTheBestMedian) {
  const sweep s = parse_sweep(two_policies);
  // async: 1 is best in the median, although 0.1 has the best run. sync: 10 is best.
  const std::vector<double> accuracy{0.99, 0.2, 0.3, 0.6, 0.7, 0.8, 0.1, 0.1, 0.1,
                                     0.4,  0.4, 0.4, 0.5, 0.5, 0.5, 0.6, 0.9, 0.7};
  const std::vector<sweep_row> rows = rows_for(s, [&](sweep_row& r) { r.test_accuracy = accuracy[r.cell]; });
  const judged_figure judged = judged_by(rows);
  ASSERT_EQ(judged, judged_figure::test_accuracy);
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged);
  ASSERT_EQ(methods.size(), 2U);
  EXPECT_THAT(methods[0].values, ElementsAre("async", "1", ""));
  EXPECT_THAT(methods[0].cells, ElementsAre(3U, 4U, 5U));
  EXPECT_DOUBLE_EQ(methods[0].test_accuracy->median, 0.7);
  EXPECT_DOUBLE_EQ(methods[0].test_accuracy->low, 0.65);
  EXPECT_THAT(methods[1].values, ElementsAre("sync", "10", ""));
  EXPECT_EQ(median_cell(methods[1], rows, judged), 17U);
  EXPECT_THAT(summary_csv(s, methods),
              StartsWith("policy,lr,runs,completed,reached_target,test_accuracy_median"));
  EXPECT_THAT(summary_csv(s, methods), HasSubstr("\nasync,1,3,3,0,0.7,"));
}

TEST(SweepSummary, TellsHowManyRunsAreMissing) {
  const sweep s = parse_sweep(two_policies);
  std::vector<sweep_row> rows = rows_for(s, [](sweep_row&) {});
  rows.resize(4);
  EXPECT_THAT(summary_csv(s, summaries_of(s, rows)),
              AllOf(HasSubstr(",speed_up,missing_runs\n"), HasSubstr("\nasync,0.1,3,"),
                    HasSubstr(",0\nasync,1,1,"), EndsWith(",2\n")));
}

TEST(SweepSummary, CountsRunsThatDivergedAsTheWorst) {
  const sweep s = parse_sweep(two_policies);
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) {
    r.test_accuracy = 0.9;
    if (r.values[1] != "0.1") return;
    r.test_accuracy = 0.99;
    if (r.values[2] == "1") return;
    r.ended = "diverged";
    r.test_accuracy.reset();
  });
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged_by(rows));
  EXPECT_EQ(methods[0].values[1], "1") << "two in three runs with 0.1 diverged";
  EXPECT_EQ(methods[0].completed, 3U);
}

TEST(SweepSummary, MeasuresSpeedUpsAgainstTheFewestWorkers) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [4, 1, 2]}, "target": {"test_accuracy": 0.4}})");
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) {
    const double workers = std::stod(r.values[1]);
    if (r.values[0] == "async") r.time_to_target = 100 / workers;
    if (r.values[0] == "sync" && workers == 2) r.time_to_target = 50;
  });
  const std::vector<sweep_summary> methods = tuned(s, summaries_of(s, rows), judged_by(rows));
  ASSERT_EQ(methods.size(), 6U);
  EXPECT_EQ(methods[0].speed_up, 4);
  EXPECT_EQ(methods[1].speed_up, 1);
  EXPECT_EQ(methods[2].speed_up, 2);
  EXPECT_FALSE(methods[5].speed_up) << "one worker never reached the target";
  EXPECT_EQ(methods[3].time_to_target->median, infinite);
}

std::vector<std::string> names_of(const auto& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  return names;
}

TEST(SweepFigures, ShowWhatWasVaried) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [1, 4], "lr": [0.1, 1], "cure": ["none"]},
          "tune": "lr", "target": {"test_accuracy": 0.4}})");
  const std::vector<sweep_row> rows = rows_for(s, [](sweep_row& r) { r.time_to_target = 8; });
  const std::vector<curve_point> curves{{0, 1, 10, 10, {}, 2.0}, {0, 2, 20, 20, {}, 1.0}};
  const std::vector<figure> figures = figures_of(s, rows, curves);
  EXPECT_THAT(names_of(figures), ElementsAre("lr", "workers", "time-to-target", "speed-up", "loss-time"));
  ASSERT_EQ(figures[0].series.size(), 4U);
  EXPECT_EQ(figures[0].series[1].name, "async, workers 4");
  EXPECT_EQ(figures[0].series[0].points.size(), 2U);
  EXPECT_EQ(figures[0].x.scale, axis_scale::logarithmic);
  EXPECT_EQ(figures[1].series[1].name, "sync");
  EXPECT_EQ(figures[3].series.back().points.back().y, 4) << "the ideal";
  EXPECT_THAT(figures[3].caption, HasSubstr("may have different values of lr"));
}

TEST(SweepFigures, NameAFlagWhereItIsSet) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async"], "overlap": [true, false], "cure": ["none", "dc-asgd"],
          "workers": [1, 2]}})");
  const std::vector<figure> figures = figures_of(s, rows_for(s, [](sweep_row&) {}), {});
  EXPECT_THAT(names_of(figures.front().series),
              ElementsAre("overlap, cure none", "overlap, dc-asgd", "without overlap, cure none",
                          "without overlap, dc-asgd"));
}

TEST(SweepFigures, HaveNoSpeedUpWhereNoMethodHasOne) {
  const sweep s = parse_sweep(
      R"({"grid": {"policy": ["async", "sync"], "workers": [1, 4]}, "target": {"test_accuracy": 0.9}})");
  const auto names_if_reached_by = [&](std::size_t axis, const char* value) {
    const auto reach = [&](sweep_row& r) {
      if (r.values[axis] == value) r.time_to_target = 8;
    };
    return names_of(figures_of(s, rows_for(s, reach), {}));
  };
  EXPECT_THAT(names_if_reached_by(0, "nobody"), ElementsAre("workers"));
  EXPECT_THAT(names_if_reached_by(1, "1"), ElementsAre("workers", "time-to-target"))
      << "one worker against itself";
  EXPECT_THAT(names_if_reached_by(0, "sync"), ElementsAre("workers", "time-to-target", "speed-up"));
}

TEST(SweepFigures, LeaveTheWorstMethodsOutAndSaySo) {
  const sweep s = parse_sweep(R"({"grid": {"batch": [1, 2, 3, 4, 5, 6, 7, 8], "workers": [1, 2]}})");
  const std::vector<sweep_row> rows =
      rows_for(s, [](sweep_row& r) { r.test_accuracy = 1 - std::stod(r.values[0]) / 10; });
  const std::vector<figure> figures = figures_of(s, rows, {});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].series.size(), 6U);
  EXPECT_THAT(figures[0].caption, HasSubstr("Left out, since they did no better: batch 7; batch 8."));
}

TEST(SweepFigures, AreNoneWithoutAFigure) {
  const sweep s = parse_sweep(R"({"grid": {"lr": [1, 2]}, "tune": "lr"})");
  EXPECT_THAT(figures_of(s, rows_for(s, [](sweep_row& r) { r.test_accuracy.reset(); }), {}), IsEmpty());
}

} // namespace
} // namespace mailgrad::lab
