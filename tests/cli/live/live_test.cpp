#include <mailgrad/tests/cli/live/shown_run.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::http_client;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::shown_run;
using ::testing::StartsWith;
using testing::tool;

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

TEST(LivePage, ServesAPageThatLoadsNothingFromElsewhere) {
  const shown_run run;
  EXPECT_THAT(run.url(), StartsWith("http://127.0.0.1:"));
  const std::string page = run.get("/");
  EXPECT_THAT(page, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("<title>Mailgrad</title>"),
                          HasSubstr("default-src 'none'"), HasSubstr("nosniff"), HasSubstr("no-store")));
  EXPECT_THAT(body_of(page),
              AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")), Not(HasSubstr("src=\"//"))));
  for (const char* part : {"/page.css", "/live.js", "/pictures.js", "/tables.js", "/chart.js"})
    EXPECT_THAT(run.get(part), StartsWith("HTTP/1.1 200")) << part;
  EXPECT_THAT(run.get("/../../etc/passwd"), StartsWith("HTTP/1.1 404"));
}

TEST(LivePage, TellsTheReportSoFar) {
  const shown_run run;
  const json report = json::parse(body_of(run.get("/report.json")));
  EXPECT_EQ(report["ended"], "running");
  EXPECT_EQ(report["parameters_sha256"], "");
  EXPECT_EQ(report["model"], "mlp:hidden=8");
  EXPECT_GE(report["ledger"]["produced"], report["ledger"]["applied"]);
}

TEST(LivePage, TellsPrometheus) {
  const shown_run run;
  EXPECT_THAT(run.get("/metrics"),
              AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"), HasSubstr("\nmailgrad_running 1\n"),
                    HasSubstr("# TYPE mailgrad_staleness_versions histogram")));
}

TEST(LivePage, TellsAViewerTheBeginningThenWhatHappens) {
  const shown_run run;
  http_client viewer(run.port());
  viewer.say("GET /events HTTP/1.1\r\nHost: localhost:" + std::to_string(run.port()) + "\r\n\r\n");
  EXPECT_TRUE(viewer.hears("event: begin\n"));
  EXPECT_TRUE(viewer.hears("event: line\n"));
  EXPECT_TRUE(viewer.hears("event: state\n"));
}

TEST(LivePage, TellsALateViewerTheCurveSoFar) {
  const shown_run run;
  const std::string host = "Host: localhost:" + std::to_string(run.port()) + "\r\n\r\n";
  {
    http_client early(run.port());
    early.say("GET /events HTTP/1.1\r\n" + host);
    ASSERT_TRUE(early.hears("event: line\n"));
  }
  http_client late(run.port());
  late.say("GET /events HTTP/1.1\r\n" + host);
  EXPECT_TRUE(late.hears(
      "event: begin\ndata: {\"model\":\"mlp:hidden=8\",\"total_steps\":1000000000,\"curve\":[{\"time_s\":"));
}

TEST(LivePage, TellsTheEndToThoseWhoLook) {
  shown_run run;
  http_client viewer(run.port());
  viewer.say("GET /events HTTP/1.1\r\nHost: localhost:" + std::to_string(run.port()) + "\r\n\r\n");
  ASSERT_TRUE(viewer.hears("event: state\n"));
  run.process().signal(SIGINT);
  EXPECT_THAT(viewer.hear_out(), AllOf(HasSubstr("event: end\n"), HasSubstr("\"ended\":\"stopped\"")));
  EXPECT_EQ(run.process().code(), 130);
}

TEST(LivePage, AnswersNoPageOfAnotherSite) {
  const shown_run run;
  const std::string port = std::to_string(run.port());
  for (const std::string& host : {"evil.example:" + port, "evil.example\r\nHost: localhost:" + port})
    EXPECT_THAT(testing::answer_to(run.port(), "GET /report.json HTTP/1.1\r\nConnection: close\r\nHost: " +
                                                   host + "\r\n\r\n"),
                StartsWith("HTTP/1.1 421"))
        << host;
}

TEST(LivePage, AsksForATokenOffThisMachine) {
  const shown_run run({"--live=0.0.0.0:0"});
  ASSERT_EQ(run.token().size(), 64U);
  for (const char* path : {"/", "/events", "/report.json", "/metrics", "/live.js", "/none"})
    EXPECT_THAT(run.get(path), AllOf(StartsWith("HTTP/1.1 401"), Not(HasSubstr("Set-Cookie")))) << path;
  EXPECT_THAT(run.get("/?token=" + run.token()),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("HttpOnly; SameSite=Strict")));
  EXPECT_THAT(run.get("/metrics", "Authorization: Bearer " + run.token() + "\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(
      run.get("/metrics", "Cookie: mailgrad-" + std::to_string(run.port()) + "=" + run.token() + "\r\n"),
      StartsWith("HTTP/1.1 200"));
}

TEST(LivePage, ChangesNothingUnlessItMay) {
  const shown_run run;
  EXPECT_THAT(run.key(), IsEmpty());
  for (const char* path : {"/switch", "/checkpoint", "/stop"})
    EXPECT_THAT(run.post(path, "{}", "Content-Type: application/json\r\nX-Mailgrad-Key: \r\n"),
                AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("--live-control")))
        << path;
  EXPECT_THAT(run.get("/stop"), StartsWith("HTTP/1.1 405"));
}

class ControlledRun : public ::testing::Test {
protected:
  std::string post(const std::string& path, const std::string& body, const std::string& more = {}) const {
    return run_.post(path, body,
                     fields_ + "Content-Type: application/json\r\nX-Mailgrad-Key: " + key_ + "\r\n" + more);
  }

  shown_run run_{{"--live=127.0.0.1:0", "--live-control"}};
  const std::string fields_ = "Authorization: Bearer " + run_.token() + "\r\n";
  const std::string key_ = run_.key();
};

TEST_F(ControlledRun, SwitchesAndStopsFromThePage) {
  EXPECT_THAT(post("/switch", R"({"policy": "sync"})"),
              AllOf(StartsWith("HTTP/1.1 202"), HasSubstr("'sync'")));
  json report;
  do report = json::parse(body_of(run_.get("/report.json", fields_)));
  while (report["switches"].empty());
  EXPECT_EQ(report["policy"], "async") << "as asked for";
  EXPECT_EQ(report["present_policy"], "sync");
  EXPECT_GT(report["switches"][0]["time_s"], 0);
  EXPECT_THAT(run_.get("/metrics", fields_), HasSubstr(",policy=\"sync\","));
  EXPECT_THAT(post("/stop", "{}"), StartsWith("HTTP/1.1 202"));
  EXPECT_EQ(run_.process().code(), 0);
  EXPECT_THAT(run_.process().err(), HasSubstr("\nended: stopped on the live page\n"));
}

TEST_F(ControlledRun, SaysInWordsWhatCannotBe) {
  EXPECT_THAT(post("/switch", R"({"policy": "synk"})"), AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("synk")));
  EXPECT_THAT(
      post("/switch", R"({"policy": "./libmine.so:1"})"),
      AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("a plug-in is loaded by the process that names it")));
  EXPECT_THAT(post("/checkpoint", "{}"),
              AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("no folder for checkpoints")));
  for (const char* body :
       {"", "{}", "[]", "{\"policy\": 3}", "{\"policy\": \"\"}", "{\"policy\": \"a\", \"b\": 1}", "{{{"})
    EXPECT_THAT(post("/switch", body), StartsWith("HTTP/1.1 400")) << body;
}

TEST_F(ControlledRun, ListensToNobodyElse) {
  EXPECT_THAT(run_.post("/stop", "{}", fields_ + "Content-Type: application/json\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(run_.post("/stop", "{}", fields_ + "X-Mailgrad-Key: " + key_ + "\r\n"),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(post("/stop", "{}", "Origin: http://evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(run_.post("/stop", "{}", "Content-Type: application/json\r\nX-Mailgrad-Key: " + key_ + "\r\n"),
              StartsWith("HTTP/1.1 401"))
      << "the token is missing";
  EXPECT_EQ(json::parse(body_of(run_.get("/report.json", fields_)))["ended"], "running");
}

TEST(LivePage, TellsWhoIsInTheRunWhoWasLostAndWhoIsBack) {
  testing::shown_members run;
  const auto until = [&](const char* state, int count) {
    json members;
    do members = json::parse(body_of(run.get("/report.json")))["members"];
    while (members["counts"]["worker"][state] != count);
    return members["listed"];
  };
  EXPECT_EQ(until("joined", 2)[1]["losses"], 0);
  run.kill(1);
  const json lost = until("lost", 1)[1];
  EXPECT_EQ(lost["state"], "lost");
  EXPECT_THAT(lost["why"].get<std::string>(), StartsWith("worker 1 (incarnation 1): "));
  EXPECT_THAT(run.get("/metrics"), AllOf(HasSubstr("mailgrad_members{role=\"worker\",state=\"joined\"} 1\n"),
                                         HasSubstr("mailgrad_members{role=\"worker\",state=\"lost\"} 1\n"),
                                         HasSubstr("mailgrad_member_losses_total{role=\"worker\"} 1\n")));
  run.join(1);
  const json back = until("joined", 2)[1];
  EXPECT_EQ(back["losses"], 1);
  EXPECT_EQ(back["incarnation"], 2);
  EXPECT_EQ(back["why"], lost["why"]);
  tool stop({"stop", run.address()});
  EXPECT_EQ(run.server().code(), 0) << run.server().err();
}

TEST(LivePage, FindsATakenAddressBeforeTrainingBegins) {
  const shown_run run;
  const std::string address = "127.0.0.1:" + std::to_string(run.port());
  tool second({"train", "--data=" MAILGRAD_SMALL_CSV, "--live=" + address});
  EXPECT_EQ(second.code(), 2);
  EXPECT_EQ(second.err(), "mailgrad: cannot listen at " + address + ": Address already in use\n");
}

TEST(LivePage, RefusesOptionsThatMeanNothing) {
  const auto refusal = [](const std::string& word) {
    tool t({"train", "--data=" MAILGRAD_SMALL_CSV, word});
    EXPECT_EQ(t.code(), 2) << word;
    return t.err();
  };
  EXPECT_THAT(refusal("--live=example.org:80"), HasSubstr("--live: 'example.org:80' is no address"));
  EXPECT_THAT(refusal("--live-control"), HasSubstr("--live"));
  EXPECT_THAT(refusal("--live-token=x"), HasSubstr("--live"));
}

TEST(LivePage, ShowsAReplayAndStandsInNoRecording) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "run.rec").string();
  tool recorded({"train", "--data=" MAILGRAD_SMALL_CSV, "--model=mlp:hidden=8", "--batch=4",
                 "--record=" + file, "--live=127.0.0.1:0"});
  EXPECT_EQ(recorded.code(), 0) << recorded.err();
  tool plain({"replay", file});
  EXPECT_EQ(plain.code(), 0) << plain.err();
  EXPECT_THAT(plain.err(), Not(HasSubstr("live page")));
  tool shown({"replay", file, "--live=127.0.0.1:0"});
  EXPECT_EQ(shown.code(), 0) << shown.err();
  EXPECT_THAT(shown.err(), HasSubstr("live page: http://127.0.0.1:"));
}

} // namespace
} // namespace mailgrad
