#include <mailgrad/tests/support/browser.hpp> // has a local name that tool.hpp declares

#include <mailgrad/tests/cli/remote/remote_tool.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <array>
#include <tuple>

// The live page: what it serves, and what a browser shows of it.

namespace mailgrad::testing {
namespace {

/// Where a process shows itself, once it has said so and everything has begun.
struct shown_at {
  explicit shown_at(tool& process) {
    if (!process.says("live page: http://") || !process.says("; Ctrl-C"))
      throw std::runtime_error(process.said());
    const std::string& said = process.said();
    const std::size_t at = said.find("http://");
    url = said.substr(at, said.find(';', at) - at);
    port = static_cast<std::uint16_t>(std::stoul(url.substr(url.find(':', 7) + 1)));
    if (const std::size_t mark = url.find("?token="); mark != std::string::npos) token = url.substr(mark + 7);
  }
  std::string get(const std::string& target, const std::string& fields = {}) const {
    return got(port, target, fields);
  }

  std::string url, token;
  std::uint16_t port = 0;
};

/// A process of the tool that trains until it is stopped, and shows itself at a free port.
struct shown_run {
  explicit shown_run(const words& more = {"--live=127.0.0.1:0"}, const std::string& model = "mlp:hidden=8")
      : process(train("--steps=1000000000 --metrics-every=500"_w + more, model)) {}

  std::string get(const std::string& target, const std::string& fields = {}) const {
    return at.get(target, fields);
  }
  /// A POST as the page would send it, but with these fields.
  std::string post(const std::string& target, const std::string& body, const std::string& fields) const {
    return answer_to(at.port, "POST " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(at.port) +
                                  "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                                  "\r\n" + fields + "\r\n" + body);
  }
  /// Begins to listen to the events of the run.
  void listen(http_client& viewer) const {
    viewer.say("GET /events?token=" + at.token + " HTTP/1.1\r\nHost: localhost:" + std::to_string(at.port) +
               "\r\n\r\n");
  }
  /// The key with which the page may change the run.
  std::string key() const {
    http_client viewer(at.port);
    listen(viewer);
    if (!viewer.hears("\"keeps_checkpoints\"")) throw std::runtime_error(viewer.heard());
    const std::string& heard = viewer.heard();
    const std::size_t begin = heard.find("\"key\":\"") + 7;
    return heard.substr(begin, heard.find('"', begin) - begin);
  }

  tool process;
  const shown_at at{process};
};

/// A served run whose two workers are processes, which shows itself at a free port.
struct shown_members {
  shown_members() {
    join(0);
    join(1);
    at.emplace(server);
  }
  void join(std::size_t number) {
    workers[number] = std::make_unique<tool>(server.join(std::to_string(number)));
  }
  void kill(std::size_t number) { workers[number].reset(); }

  server_tool server{RemoteTool::serve("2") + "--epochs 1000000 --live=127.0.0.1:0"_w};
  std::optional<shown_at> at;
  std::array<std::unique_ptr<tool>, 2> workers;
};

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

MATCHER_P(IsAnswer, code, "is an answer with this code") {
  return arg.starts_with("HTTP/1.1 " + std::to_string(code));
}

const std::string as_json = "Content-Type: application/json\r\n";

TEST(LivePage, ServesAPageThatLoadsNothingFromElsewhere) {
  const shown_run run;
  EXPECT_THAT(run.at.url, StartsWith("http://127.0.0.1:"));
  const std::string page = run.get("/");
  EXPECT_THAT(page, AllOf(IsAnswer(200), HasSubstr("<title>Mailgrad</title>"),
                          HasSubstr("default-src 'none'"), HasSubstr("nosniff"), HasSubstr("no-store")));
  EXPECT_THAT(body_of(page),
              AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")), Not(HasSubstr("src=\"//"))));
  for (const char* part : {"/page.css", "/live.js", "/pictures.js", "/tables.js", "/chart.js"})
    EXPECT_THAT(run.get(part), IsAnswer(200)) << part;
  EXPECT_THAT(run.get("/../../etc/passwd"), IsAnswer(404));
}

TEST(LivePage, TellsTheReportSoFar) {
  const json report = json::parse(body_of(shown_run().get("/report.json")));
  EXPECT_EQ(report["ended"], "running");
  EXPECT_EQ(report["parameters_sha256"], "");
  EXPECT_EQ(report["model"], "mlp:hidden=8");
  EXPECT_GE(report["ledger"]["produced"], report["ledger"]["applied"]);
}

TEST(LivePage, TellsPrometheus) {
  EXPECT_THAT(shown_run().get("/metrics"),
              HasAll("Content-Type: text/plain; version=0.0.4", "\nmailgrad_running 1\n",
                     "# TYPE mailgrad_staleness_versions histogram"));
}

TEST(LivePage, TellsAViewerTheBeginningThenWhatHappens) {
  const shown_run run;
  http_client viewer(run.at.port);
  run.listen(viewer);
  for (const char* event : {"event: begin\n", "event: line\n", "event: state\n"})
    EXPECT_TRUE(viewer.hears(event)) << event;
}

TEST(LivePage, TellsALateViewerTheCurveSoFar) {
  const shown_run run;
  {
    http_client early(run.at.port);
    run.listen(early);
    ASSERT_TRUE(early.hears("event: line\n"));
  }
  http_client late(run.at.port);
  run.listen(late);
  EXPECT_TRUE(late.hears(
      "event: begin\ndata: {\"model\":\"mlp:hidden=8\",\"total_steps\":1000000000,\"curve\":[{\"time_s\":"));
}

TEST(LivePage, TellsTheEndToThoseWhoLook) {
  shown_run run;
  http_client viewer(run.at.port);
  run.listen(viewer);
  ASSERT_TRUE(viewer.hears("event: state\n"));
  run.process.signal(SIGINT);
  EXPECT_THAT(viewer.hear_out(), HasAll("event: end\n", "\"ended\":\"stopped\""));
  EXPECT_EQ(run.process.code(), 130);
}

TEST(LivePage, AnswersNoPageOfAnotherSite) {
  const shown_run run;
  const std::string port = std::to_string(run.at.port);
  for (const std::string& host : {"evil.example:" + port, "evil.example\r\nHost: localhost:" + port})
    EXPECT_THAT(answer_to(run.at.port,
                          "GET /report.json HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n\r\n"),
                IsAnswer(421))
        << host;
}

TEST(LivePage, AsksForATokenOffThisMachine) {
  const shown_run run({"--live=0.0.0.0:0"});
  const std::string& token = run.at.token;
  ASSERT_EQ(token.size(), 64U);
  for (const char* path : {"/", "/events", "/report.json", "/metrics", "/live.js", "/none"})
    EXPECT_THAT(run.get(path), AllOf(IsAnswer(401), Not(HasSubstr("Set-Cookie")))) << path;
  EXPECT_THAT(run.get("/?token=" + token), AllOf(IsAnswer(200), HasSubstr("HttpOnly; SameSite=Strict")));
  EXPECT_THAT(run.get("/metrics", "Authorization: Bearer " + token + "\r\n"), IsAnswer(200));
  EXPECT_THAT(run.get("/metrics", "Cookie: mailgrad-" + std::to_string(run.at.port) + "=" + token + "\r\n"),
              IsAnswer(200));
}

TEST(LivePage, ChangesNothingUnlessItMay) {
  const shown_run run;
  EXPECT_THAT(run.key(), IsEmpty());
  for (const char* path : {"/switch", "/checkpoint", "/stop"})
    EXPECT_THAT(run.post(path, "{}", as_json + "X-Mailgrad-Key: \r\n"),
                AllOf(IsAnswer(403), HasSubstr("--live-control")))
        << path;
  EXPECT_THAT(run.get("/stop"), IsAnswer(405));
}

struct ControlledRun : Test {
  std::string post(const std::string& path, const std::string& body, const std::string& more = {}) const {
    return run.post(path, body, bearer + as_json + with_key + more);
  }
  json report() const { return json::parse(body_of(run.get("/report.json", bearer))); }

  shown_run run{{"--live=127.0.0.1:0", "--live-control"}};
  const std::string bearer = "Authorization: Bearer " + run.at.token + "\r\n";
  const std::string with_key = "X-Mailgrad-Key: " + run.key() + "\r\n";
};

TEST_F(ControlledRun, SwitchesAndStopsFromThePage) {
  EXPECT_THAT(post("/switch", R"({"policy": "sync"})"), AllOf(IsAnswer(202), HasSubstr("'sync'")));
  json r;
  do r = report();
  while (r["switches"].empty());
  EXPECT_EQ(r["policy"], "async") << "as asked for";
  EXPECT_EQ(r["present_policy"], "sync");
  EXPECT_GT(r["switches"][0]["time_s"], 0);
  EXPECT_THAT(run.get("/metrics", bearer), HasSubstr(",policy=\"sync\","));
  EXPECT_THAT(post("/stop", "{}"), IsAnswer(202));
  EXPECT_EQ(run.process.code(), 0);
  EXPECT_THAT(run.process.err(), HasSubstr("\nended: stopped on the live page\n"));
}

TEST_F(ControlledRun, SaysInWordsWhatCannotBe) {
  EXPECT_THAT(post("/switch", R"({"policy": "synk"})"), AllOf(IsAnswer(409), HasSubstr("synk")));
  EXPECT_THAT(post("/switch", R"({"policy": "./libmine.so:1"})"),
              AllOf(IsAnswer(409), HasSubstr("a plug-in is loaded by the process that names it")));
  EXPECT_THAT(post("/checkpoint", "{}"), AllOf(IsAnswer(409), HasSubstr("no folder for checkpoints")));
  for (const char* body :
       {"", "{}", "[]", "{\"policy\": 3}", "{\"policy\": \"\"}", "{\"policy\": \"a\", \"b\": 1}", "{{{"})
    EXPECT_THAT(post("/switch", body), IsAnswer(400)) << body;
}

TEST_F(ControlledRun, ListensToNobodyElse) {
  EXPECT_THAT(run.post("/stop", "{}", bearer + as_json), IsAnswer(403));
  EXPECT_THAT(run.post("/stop", "{}", bearer + with_key), IsAnswer(415));
  EXPECT_THAT(post("/stop", "{}", "Origin: http://evil.example\r\n"), IsAnswer(403));
  EXPECT_THAT(run.post("/stop", "{}", as_json + with_key), IsAnswer(401)) << "the token is missing";
  EXPECT_EQ(report()["ended"], "running");
}

TEST(LivePage, TellsWhoIsInTheRunWhoWasLostAndWhoIsBack) {
  shown_members run;
  const auto until = [&](const char* state, int count) {
    json members;
    do members = json::parse(body_of(run.at->get("/report.json")))["members"];
    while (members["counts"]["worker"][state] != count);
    return members["listed"];
  };
  EXPECT_EQ(until("joined", 2)[1]["losses"], 0);
  run.kill(1);
  const json lost = until("lost", 1)[1];
  EXPECT_EQ(lost["state"], "lost");
  EXPECT_THAT(lost["why"].get<std::string>(), StartsWith("worker 1 (incarnation 1): "));
  EXPECT_THAT(run.at->get("/metrics"), HasAll("mailgrad_members{role=\"worker\",state=\"joined\"} 1\n",
                                              "mailgrad_members{role=\"worker\",state=\"lost\"} 1\n",
                                              "mailgrad_member_losses_total{role=\"worker\"} 1\n"));
  run.join(1);
  const json back = until("joined", 2)[1];
  EXPECT_EQ(back["losses"], 1);
  EXPECT_EQ(back["incarnation"], 2);
  EXPECT_EQ(back["why"], lost["why"]);
  run.server.stop();
  EXPECT_EQ(run.server.code(), 0) << run.server.err();
}

TEST(LivePage, FindsATakenAddressBeforeTrainingBegins) {
  const shown_run run;
  const std::string address = "127.0.0.1:" + std::to_string(run.at.port);
  EXPECT_EQ(refusal({"train", "--data=" MAILGRAD_SMALL_CSV, "--live=" + address}),
            "mailgrad: cannot listen at " + address + ": Address already in use\n");
}

TEST(LivePage, RefusesOptionsThatMeanNothing) {
  for (const auto& [word, why] :
       {std::pair{"--live=example.org:80", "--live: 'example.org:80' is no address"},
        {"--live-control", "--live"},
        {"--live-token=x", "--live"}})
    EXPECT_THAT(refusal({"train", "--data=" MAILGRAD_SMALL_CSV, word}), HasSubstr(why)) << word;
}

TEST(LivePage, ShowsAReplayAndStandsInNoRecording) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "run.rec").string();
  done({"train", "--data=" MAILGRAD_SMALL_CSV, "--model=mlp:hidden=8", "--batch=4", "--record=" + file,
        "--live=127.0.0.1:0"});
  EXPECT_THAT(done({"replay", file}).err, Not(HasSubstr("live page")));
  EXPECT_THAT(done({"replay", file, "--live=127.0.0.1:0"}).err, HasSubstr("live page: http://127.0.0.1:"));
}

/// The page as a browser shows it.
struct PageInBrowser : ToolTest {
  void SetUp() override {
    const auto program = browser::program();
    if (!program) GTEST_SKIP() << "there is no chromium here (scripts/install-dependencies --browser)";
    chromium.emplace(*program, folder.path().string());
  }
  /// Waits until an element has this text.
  void await_text(const std::string& id, const std::string& text) {
    chromium->wait_until("document.getElementById('" + id + "').textContent === '" + text + "'");
  }
  /// Waits until the picture of the training loss has more points than so many.
  void await_points(int count) { chromium->wait_until(points + " > " + std::to_string(count)); }

  const std::string points = "Chart.getChart('loss').data.datasets[0].data.length";
  std::optional<browser> chromium;
};

TEST_F(PageInBrowser, GrowsWhileTheRunGoesOnAndStaysWhenItHasEnded) {
  shown_run run({"--live=127.0.0.1:0", "--devices=cpu:0,cpu:0"});
  chromium->open(run.at.url);
  await_text("status", "running");
  await_points(2);
  const int before = chromium->value(points);
  await_points(before);
  chromium->wait_until("document.querySelectorAll('#staleness canvas').length === 2");
  EXPECT_THAT(chromium->text_of("ledger"), HasSubstr("under way"));
  EXPECT_THAT(chromium->text_of("panel-1"), StartsWith("worker 1: mean "));
  EXPECT_THAT(chromium->text_of("what"), HasSubstr("async · 2 workers"));
  EXPECT_TRUE(chromium->value("document.getElementById('control').hidden")) << "it may only look";
  run.process.signal(SIGINT);
  chromium->wait_until(
      "document.getElementById('status').textContent.startsWith('the run has ended: stopped')");
  EXPECT_EQ(run.process.code(), 130);
  EXPECT_GE(chromium->value(points).get<int>(), before) << "the pictures stay";
  EXPECT_THAT(chromium->complaints(), IsEmpty());
}

TEST_F(PageInBrowser, SwitchesThePolicyWhereItMay) {
  const shown_run run({"--live=127.0.0.1:0", "--live-control", "--devices=cpu:0,cpu:0"});
  chromium->open(run.at.url);
  chromium->wait_until("!document.getElementById('control').hidden");
  EXPECT_EQ(chromium->value("location.search"), "") << "the token stands in the address no longer";
  const auto ask_for = [&](const std::string& policy) {
    chromium->value("document.getElementById('policy').value = '" + policy +
                    "'; document.querySelector('#switch-form button').click()");
  };
  ask_for("synk");
  chromium->wait_until("document.getElementById('answer').className === 'refused'");
  EXPECT_THAT(chromium->text_of("answer"), HasSubstr("synk"));
  ask_for("sync");
  chromium->wait_until(
      "document.getElementById('switches').textContent.includes('asked for on the live page')");
  EXPECT_THAT(chromium->text_of("what"), HasSubstr(" · sync · 2 workers"));
  EXPECT_THAT(chromium->text_of("facts"), HasAll("policysync", "policy as asked forasync"));
  EXPECT_THAT(chromium->text_of("switches"), ContainsRegex("stepafterfromtowhy[0-9,]+[0-9.]+ sasyncsync"));
  chromium->value("window.confirm = () => true; document.getElementById('stop').click()");
  chromium->wait_until("document.getElementById('status').textContent !== 'running'");
  EXPECT_EQ(chromium->text_of("status"), "the run has ended: stopped on the live page") << "once";
}

TEST_F(PageInBrowser, ShowsWhoWasLostAndWhoIsBack) {
  shown_members run;
  chromium->open(run.at->url);
  await_text("members-words", "2 workers joined");
  run.kill(1);
  await_text("members-words", "1 worker joined, 1 lost");
  EXPECT_THAT(chromium->text_of("what"), HasSubstr(" · 1 of 2 workers · "));
  EXPECT_THAT(chromium->text_of("members"), HasAll("worker 1lost", "worker 1 (incarnation 1): "));
  run.join(1);
  await_text("members-words", "2 workers joined");
  EXPECT_THAT(chromium->text_of("members"), HasAll("worker 1back", "was lost: worker 1 ("));
  EXPECT_THAT(chromium->complaints(), IsEmpty());
}

/// The colours of the page, and those in which the pictures are drawn.
TEST_F(PageInBrowser, IsDarkWhereThePersonWantsThat) {
  const shown_run run;
  chromium->open(run.at.url);
  for (const auto& [scheme, grid, ground] :
       {std::tuple{"light", "#e8ebee", "rgb(244, 246, 248)"}, {"dark", "#2a3037", "rgb(16, 19, 23)"}}) {
    chromium->prefer(scheme);
    chromium->wait_until(points + " > 2 && Chart.getChart('loss').options.scales.y.grid.color === '" + grid +
                         "'");
    EXPECT_EQ(chromium->value("getComputedStyle(document.body).backgroundColor"), ground);
  }
  EXPECT_THAT(chromium->complaints(), IsEmpty());
}

TEST_F(PageInBrowser, DrawsStalenessOverTime) {
  const shown_run run({"--live=127.0.0.1:0", "--devices=cpu:0,cpu:0"});
  chromium->open(run.at.url);
  for (const std::string set : {"0", "1"})
    chromium->wait_until("Chart.getChart('gaps').data.datasets[" + set + "].data.length > 2");
}

/// Two neighbours of which one came with a test: its mean is over few samples.
TEST_F(PageInBrowser, LetsNoTestThrowACurveUpAndDown) {
  const shown_run run;
  chromium->open(run.at.url);
  await_points(0);
  const nlohmann::json drawn =
      chromium->value("(() => {"
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
  chromium->open(run.at.url);
  await_points(0);
  EXPECT_THAT(chromium->text_of("progress-words"), AllOf(HasSubstr(" so far"), Not(HasSubstr("left"))));
  chromium->wait_until("document.getElementById('progress-words').textContent.endsWith(' left')");
}

TEST_F(PageInBrowser, DrawsSharesBetweenNothingAndAll) {
  const shown_run run({"--live=127.0.0.1:0", "--record=" + path("run.rec"), "--evaluate-every=1h"});
  chromium->open(run.at.url);
  chromium->wait_until("document.getElementById('facts').textContent.includes('run.rec')");
  const nlohmann::json ends = chromium->value("(() => {"
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
  const std::string model = folder.write("<img src=x onerror=document.title=1>.json",
                                         R"({"layers": [{"dense": {"units": 8}}, {"dense": {}}]})");
  const shown_run run({"--live=127.0.0.1:0"}, model);
  chromium->open(run.at.url);
  chromium->wait_until("document.getElementById('facts').textContent.includes('<img src=x')");
  EXPECT_EQ(chromium->value("document.querySelectorAll('img').length"), 0);
  EXPECT_THAT(chromium->text_of("what"), HasSubstr("<img src=x onerror"));
}

TEST_F(PageInBrowser, FitsOnAPhone) {
  const shown_run run;
  chromium->open(run.at.url, 390, 800);
  await_text("status", "running");
  chromium->wait_until("document.querySelectorAll('#staleness canvas').length === 1");
  EXPECT_LE(chromium->value("document.documentElement.scrollWidth").get<int>(), 390) << "nothing sticks out";
}

} // namespace
} // namespace mailgrad::testing
