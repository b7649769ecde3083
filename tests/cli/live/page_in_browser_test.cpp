#include <mailgrad/tests/cli/live/shown_run.hpp>
#include <mailgrad/tests/support/browser.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

// The live page as a browser shows it.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using testing::browser;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::shown_run;
using ::testing::StartsWith;

class PageInBrowser : public ::testing::Test {
protected:
  void SetUp() override {
    const auto program = browser::program();
    if (!program) GTEST_SKIP() << "there is no chromium here (scripts/install-dependencies --browser)";
    chromium_.emplace(*program, folder_.path().string());
  }
  /// How many points the training loss has in the picture.
  static constexpr const char* points = "Chart.getChart('loss').data.datasets[0].data.length";

  static constexpr const char* ground = "getComputedStyle(document.body).backgroundColor";
  static constexpr const char* grid = "Chart.getChart('loss').options.scales.y.grid.color";

  const scratch_folder folder_;
  std::optional<browser> chromium_;
};

TEST_F(PageInBrowser, GrowsWhileTheRunGoesOnAndStaysWhenItHasEnded) {
  shown_run run({"--live=127.0.0.1:0", "--devices=cpu:0,cpu:0"});
  chromium_->open(run.url());
  chromium_->wait_until("document.getElementById('status').textContent === 'running'");
  chromium_->wait_until(std::string(points) + " > 2");
  const int before = chromium_->value(points);
  chromium_->wait_until(std::string(points) + " > " + std::to_string(before));
  chromium_->wait_until("document.querySelectorAll('#staleness canvas').length === 2");
  EXPECT_THAT(chromium_->text_of("ledger"), HasSubstr("under way"));
  EXPECT_THAT(chromium_->text_of("panel-1"), StartsWith("worker 1: mean "));
  EXPECT_THAT(chromium_->text_of("what"), HasSubstr("async · 2 workers"));
  EXPECT_TRUE(chromium_->value("document.getElementById('control').hidden")) << "it may only look";
  run.process().signal(SIGINT);
  chromium_->wait_until(
      "document.getElementById('status').textContent.startsWith('the run has ended: stopped')");
  EXPECT_EQ(run.process().code(), 130);
  EXPECT_GE(chromium_->value(points).get<int>(), before) << "the pictures stay";
  EXPECT_THAT(chromium_->complaints(), IsEmpty());
}

TEST_F(PageInBrowser, SwitchesThePolicyWhereItMay) {
  const shown_run run({"--live=127.0.0.1:0", "--live-control", "--devices=cpu:0,cpu:0"});
  chromium_->open(run.url());
  chromium_->wait_until("!document.getElementById('control').hidden");
  EXPECT_EQ(chromium_->value("location.search"), "") << "the token stands in the address no longer";
  const auto ask_for = [&](const std::string& policy) {
    chromium_->value("document.getElementById('policy').value = '" + policy +
                     "'; document.querySelector('#switch-form button').click()");
  };
  ask_for("synk");
  chromium_->wait_until("document.getElementById('answer').className === 'refused'");
  EXPECT_THAT(chromium_->text_of("answer"), HasSubstr("synk"));
  ask_for("sync");
  chromium_->wait_until(
      "document.getElementById('switches').textContent.includes('asked for on the live page')");
  EXPECT_THAT(chromium_->text_of("what"), HasSubstr(" · sync · 2 workers"));
  EXPECT_THAT(chromium_->text_of("facts"),
              AllOf(HasSubstr("policysync"), HasSubstr("policy as asked forasync")));
  EXPECT_THAT(chromium_->text_of("switches"), ContainsRegex("stepafterfromtowhy[0-9,]+[0-9.]+ sasyncsync"));
  chromium_->value("window.confirm = () => true; document.getElementById('stop').click()");
  chromium_->wait_until("document.getElementById('status').textContent !== 'running'");
  EXPECT_EQ(chromium_->text_of("status"), "the run has ended: stopped on the live page") << "once";
}

TEST_F(PageInBrowser, ShowsWhoWasLostAndWhoIsBack) {
  testing::shown_members run;
  chromium_->open(run.url());
  chromium_->wait_until("document.getElementById('members-words').textContent === '2 workers joined'");
  run.kill(1);
  chromium_->wait_until("document.getElementById('members-words').textContent === '1 worker joined, 1 lost'");
  EXPECT_THAT(chromium_->text_of("what"), HasSubstr(" · 1 of 2 workers · "));
  EXPECT_THAT(chromium_->text_of("members"), HasSubstr("worker 1lost"));
  EXPECT_THAT(chromium_->text_of("members"), HasSubstr("worker 1 (incarnation 1): "));
  run.join(1);
  chromium_->wait_until("document.getElementById('members-words').textContent === '2 workers joined'");
  EXPECT_THAT(chromium_->text_of("members"),
              AllOf(HasSubstr("worker 1back"), HasSubstr("was lost: worker 1 (")));
  EXPECT_THAT(chromium_->complaints(), IsEmpty());
}

/// The colours of the page, and those in which the pictures are drawn.
TEST_F(PageInBrowser, IsDarkWhereThePersonWantsThat) {
  const shown_run run;
  chromium_->open(run.url());
  chromium_->prefer("light");
  chromium_->wait_until(std::string(points) + " > 2 && " + grid + " === '#e8ebee'");
  EXPECT_EQ(chromium_->value(ground), "rgb(244, 246, 248)");
  chromium_->prefer("dark");
  chromium_->wait_until(std::string(points) + " > 2 && " + grid + " === '#2a3037'");
  EXPECT_EQ(chromium_->value(ground), "rgb(16, 19, 23)");
  EXPECT_THAT(chromium_->complaints(), IsEmpty());
}

TEST_F(PageInBrowser, DrawsStalenessOverTime) {
  const shown_run run({"--live=127.0.0.1:0", "--devices=cpu:0,cpu:0"});
  chromium_->open(run.url());
  for (const char* set : {"0", "1"})
    chromium_->wait_until(std::string("Chart.getChart('gaps').data.datasets[") + set + "].data.length > 2");
}

/// Two neighbours of which one came with a test: its mean is over few samples.
TEST_F(PageInBrowser, LetsNoTestThrowACurveUpAndDown) {
  const shown_run run;
  chromium_->open(run.url());
  chromium_->wait_until(std::string(points) + " > 0");
  const nlohmann::json drawn =
      chromium_->value("(() => {"
                       " const curve = [[1, 100, 2.0], [2, 200, 1.8], [2.001, 202, 9.0, 0.5], [3, 300, 1.6],"
                       "   [4, 400, 1.4], [4, 400, null, 0.4]];"
                       " pictures.show_curve(curve.map(([time_s, samples, train_loss, test_loss]) =>"
                       "   ({time_s, samples, train_loss, test_loss, steps: samples, updates: samples})),"
                       "   'time_s', false, []);"
                       " return Chart.getChart('loss').data.datasets.map((set) => set.data);"
                       "})()");
  ASSERT_EQ(drawn[0].size(), 4U) << drawn;
  EXPECT_NEAR(drawn[0][1]["y"].get<double>(), (100 * 1.8 + 2 * 9.0) / 102, 1e-9) << "of as many samples";
  EXPECT_EQ(drawn[0][2]["y"], 1.6);
  EXPECT_EQ(drawn[2], nlohmann::json::parse(R"([{"x": 2.001, "y": 0.5}, {"x": 4, "y": 0.4}])"));
}

/// The first steps of a run are slow.
TEST_F(PageInBrowser, SaysNothingOfTheTimeLeftBeforeItIsKnown) {
  const shown_run run;
  chromium_->open(run.url());
  chromium_->wait_until(std::string(points) + " > 0");
  EXPECT_THAT(chromium_->text_of("progress-words"), AllOf(HasSubstr(" so far"), Not(HasSubstr("left"))));
  chromium_->wait_until("document.getElementById('progress-words').textContent.endsWith(' left')");
}

TEST_F(PageInBrowser, DrawsSharesBetweenNothingAndAll) {
  const shown_run run(
      {"--live=127.0.0.1:0", "--record=" + (folder_.path() / "run.rec").string(), "--evaluate-every=1h"});
  chromium_->open(run.url());
  chromium_->wait_until("document.getElementById('facts').textContent.includes('run.rec')");
  const nlohmann::json ends = chromium_->value("(() => {"
                                               " document.getElementById('quality-section').hidden = false;"
                                               " const chart = Chart.getChart('quality');"
                                               " chart.data.datasets[1].data = [{x: 1, y: 0.9}];"
                                               " chart.resize();"
                                               " chart.update();"
                                               " return [chart.scales.y.min, chart.scales.y.max, 0.9];"
                                               "})()");
  EXPECT_GE(ends.at(0).get<double>(), 0);
  EXPECT_LT(ends.at(0), ends.at(2)) << "the point is drawn";
  EXPECT_LE(ends.at(1).get<double>(), 1);
}

/// The name of a model may come from anywhere.
TEST_F(PageInBrowser, InsertsTextsOfTheRunAsText) {
  const std::string model = (folder_.path() / "<img src=x onerror=document.title=1>.json").string();
  std::ofstream(model) << R"({"layers": [{"dense": {"units": 8}}, {"dense": {}}]})";
  const shown_run run({"--live=127.0.0.1:0", "--model=" + model});
  chromium_->open(run.url());
  chromium_->wait_until("document.getElementById('facts').textContent.includes('<img src=x')");
  EXPECT_EQ(chromium_->value("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(chromium_->text_of("what"), HasSubstr("<img src=x onerror"));
}

TEST_F(PageInBrowser, FitsOnAPhone) {
  const shown_run run;
  chromium_->open(run.url(), 390, 800);
  chromium_->wait_until("document.getElementById('status').textContent === 'running'");
  chromium_->wait_until("document.querySelectorAll('#staleness canvas').length === 1");
  EXPECT_LE(chromium_->value("document.documentElement.scrollWidth").get<int>(), 390) << "nothing sticks out";
}

} // namespace
} // namespace mailgrad
