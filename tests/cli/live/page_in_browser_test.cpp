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

using testing::browser;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
