#include <mailgrad/net/http/http_server.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <deque>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;
using mailgrad::testing::answer_to;
using mailgrad::testing::got;
using mailgrad::testing::http_client;

/// A client that follows a stream of events.
struct viewer : http_client {
  explicit viewer(std::uint16_t port) : http_client(port) {
    get("/events");
    EXPECT_TRUE(hears("event: begin\ndata: 1\n\n"));
  }
};

struct HttpServer : Test {
  static http_routes routes() {
    http_routes all;
    all.add("GET", "/", [](const http_request& x) {
      return http_response{.body = "you sent " + x.argument("q").value_or("nothing")};
    });
    all.add("POST", "/echo", [](const http_request& x) { return http_response{.body = x.body}; });
    all.add("GET", "/fails",
            [](const http_request&) -> http_response { throw std::runtime_error("as the test wants"); });
    all.add("GET", "/events", [](const http_request&) {
      return http_response{
          .type = "text/event-stream", .body = server_sent_event("begin", "1"), .streams = true};
    });
    return all;
  }
  std::uint16_t serve(const http_limits& limits = {}) {
    server_.emplace(listen_address{"127.0.0.1", 0}, limits);
    server_->serve([all = routes()](const http_request& x) { return all.answer(x); });
    return server_->address().port;
  }

  static void wait_until_served(std::uint16_t port) {
    while (!got(port, "/").starts_with("HTTP/1.1 200")) {
    }
  }

  std::optional<http_server> server_;
};

TEST_F(HttpServer, TellsThePortThatItGot) {
  const std::uint16_t port = serve();
  EXPECT_NE(port, 0);
  EXPECT_THAT(got(port, "/?q=5"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nyou sent 5")));
}

TEST_F(HttpServer, SaysWhoseAddressIsTaken) {
  const std::uint16_t port = serve();
  try {
    http_server second({"127.0.0.1", port});
    FAIL();
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::address_in_use);
    EXPECT_THAT(e.what(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  }
}

TEST_F(HttpServer, LetsClientsWaitUntilItServes) {
  http_server server({"127.0.0.1", 0});
  http_client early(server.address().port);
  early.get("/");
  server.serve([](const http_request&) { return http_response{.body = "now"}; });
  EXPECT_TRUE(early.hears("now"));
}

TEST_F(HttpServer, EndsWithoutEverServing) {
  const http_server server({"127.0.0.1", 0});
  EXPECT_EQ(server.viewers(), 0U);
}

TEST_F(HttpServer, AnswersSeveralRequestsOnOneConnection) {
  http_client client(serve());
  for (const char* q : {"1", "2", "3"}) {
    client.get(std::string("/?q=") + q);
    EXPECT_TRUE(client.hears(std::string("you sent ") + q));
  }
  client.say("GET /?q=4 HTTP/1.1\r\nHost: x\r\n\r\nGET /?q=5 HTTP/1.1\r\nHost: x\r\n\r\n"); // both at once
  EXPECT_TRUE(client.hears("you sent 5"));
}

TEST_F(HttpServer, AnswersHeadWithoutABody) {
  const std::string answer = answer_to(serve(), "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("Content-Length: 16\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpServer, TurnsAnExceptionIntoAnAnswer) {
  EXPECT_THAT(got(serve(), "/fails"), AllOf(StartsWith("HTTP/1.1 500"), EndsWith("as the test wants\n")));
}

TEST_F(HttpServer, RefusesWhatIsNoHttp) {
  const std::uint16_t port = serve();
  const std::string tls_hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 21);
  for (const std::string& garbage : std::vector<std::string>{
           "garbage\r\n\r\n", tls_hello, "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon here\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"})
    EXPECT_THAT(answer_to(port, garbage), StartsWith("HTTP/1.1 400")) << garbage;
  EXPECT_THAT(got(port, "/"), StartsWith("HTTP/1.1 200")) << "it lives on";
}

TEST_F(HttpServer, RefusesHeadersAndBodiesBeyondTheirLimits) {
  const std::uint16_t port = serve({.header_bytes = 1024, .body_bytes = 100});
  EXPECT_THAT(got(port, "/", "X: " + std::string(2000, 'x') + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(got(port, "/" + std::string(2000, 'x')), StartsWith("HTTP/1.1 431"));
  const auto post = [&](std::size_t size) {
    return answer_to(port, "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                               std::to_string(size) + "\r\n\r\n" + std::string(size, 'y'));
  };
  EXPECT_THAT(post(100), AllOf(StartsWith("HTTP/1.1 200"), EndsWith(std::string(100, 'y'))));
  EXPECT_THAT(post(101), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(post(1 << 20), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer_to(port, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n" +
                                  std::string(0xfff, 'z')),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServer, CutsOffWhoeverTakesTooLongToAsk) {
  const std::uint16_t port = serve({.patience = 50ms});
  http_client silent(port);
  http_client slow(port);
  slow.say("GET / HTTP/1.1\r\nX: ");
  EXPECT_EQ(silent.hear_out(), "");
  EXPECT_EQ(slow.hear_out(), "");
}

TEST_F(HttpServer, CutsOffWhoeverTrickles) {
  http_client trickler(serve({.header_bytes = 1 << 26, .patience = 100ms}));
  trickler.say("GET / HTTP/1.1\r\nX: ");
  while (trickler.say("x")) { // each byte comes in time, but the request never ends
  }
}

TEST_F(HttpServer, TurnsAwayMoreClientsThanItTakes) {
  const std::uint16_t port = serve({.connections = 3});
  std::deque<http_client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(port).get("/");
    ASSERT_TRUE(clients.back().hears("you sent nothing"));
  }
  EXPECT_THAT(http_client(port).hear_out(), StartsWith("HTTP/1.1 503"));
  clients.pop_back();
  wait_until_served(port); // when the server has seen it go
}

TEST_F(HttpServer, SurvivesManyWhoHangUp) {
  const std::uint16_t port = serve();
  for (int i = 0; i < 300; ++i) {
    http_client client(port);
    client.say(i % 3 == 0 ? "" : i % 3 == 1 ? "GET /" : "GET / HTTP/1.1\r\n\r\n");
  }
  wait_until_served(port);
}

TEST_F(HttpServer, StreamsWhatIsPublishedToEveryViewer) {
  const std::uint16_t port = serve();
  viewer first(port), second(port);
  for (const viewer* client : {&first, &second})
    EXPECT_THAT(client->heard(), HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_EQ(server_->viewers(), 2U);
  for (int i = 0; i < 100; ++i) server_->publish(server_sent_event("line", std::to_string(i)));
  for (viewer* client : {&first, &second}) {
    EXPECT_TRUE(client->hears("data: 99\n\n"));
    std::size_t at = 0;
    for (int i = 0; i < 100; ++i) { // all, in their order
      at = client->heard().find("data: " + std::to_string(i) + "\n\n", at);
      ASSERT_NE(at, std::string::npos) << i;
    }
  }
}

TEST_F(HttpServer, ForgetsAViewerThatHangsUpInMidStream) {
  const std::uint16_t port = serve();
  viewer stays(port);
  {
    const viewer goes(port);
    EXPECT_EQ(server_->viewers(), 2U);
  }
  while (server_->viewers() > 1) server_->publish(server_sent_event("line", "x"));
  server_->publish(server_sent_event("line", "still there"));
  EXPECT_TRUE(stays.hears("still there"));
}

TEST_F(HttpServer, CutsOffAViewerThatIsTooFarBehind) {
  const std::uint16_t port = serve({.queued_bytes = 1 << 16});
  const viewer sleeper(port);
  const std::string large = server_sent_event("line", std::string(10'000, 'x'));
  while (server_->viewers() > 0) server_->publish(large); // never waits, although the sleeper reads nothing
  const viewer awake(port);
}

TEST_F(HttpServer, GivesASignOfLifeToAStream) {
  EXPECT_TRUE(viewer(serve({.beat = 10ms})).hears("\n\n:\n\n"));
}

TEST_F(HttpServer, LetsStreamsHaveTheirLastEventsWhenItEnds) {
  viewer last(serve());
  server_->publish(server_sent_event("end", std::string(1 << 18, 'x')));
  std::string whole;
  std::thread reader([&] { whole = last.hear_out(); });
  server_.reset();
  reader.join();
  EXPECT_THAT(whole, EndsWith("xxx\n\n"));
}

TEST_F(HttpServer, EndsAlthoughAClientReadsNothing) {
  const viewer sleeper(serve());
  for (int i = 0; i < 80; ++i) server_->publish(std::string(100'000, 'x'));
  server_.reset();
}

} // namespace
} // namespace mailgrad
