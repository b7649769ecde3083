#include <mailgrad/net/http/http_message.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using namespace ::testing;

http_request asked(const std::string& query, const std::string& cookie = {}) {
  http_request r;
  r.query = query;
  if (!cookie.empty()) r.fields["cookie"] = cookie;
  return r;
}

TEST(HttpMessage, FindsAnArgumentByItsWholeName) {
  EXPECT_EQ(asked("token=abc").argument("token"), "abc");
  EXPECT_EQ(asked("a=1&token=abc&token=d").argument("token"), "abc");
  EXPECT_EQ(asked("mytoken=abc").argument("token"), std::nullopt);
  EXPECT_EQ(asked("tokens=abc").argument("token"), std::nullopt);
  EXPECT_EQ(asked("token").argument("token"), std::nullopt);
  EXPECT_EQ(asked("token=").argument("token"), "");
  EXPECT_EQ(asked("").argument("token"), std::nullopt);
}

TEST(HttpMessage, DecodesAnArgument) {
  EXPECT_EQ(asked("p=ssp%3a2+x").argument("p"), "ssp:2 x");
  for (const char* broken : {"p=%", "p=%4", "p=%zz", "p=%-1", "p=a%"})
    EXPECT_EQ(asked(broken).argument("p"), std::nullopt) << broken;
}

TEST(HttpMessage, FindsACookie) {
  EXPECT_EQ(asked("", "a=1; mailgrad=xyz; b=2").cookie("mailgrad"), "xyz");
  EXPECT_EQ(asked("", "xmailgrad=xyz").cookie("mailgrad"), std::nullopt);
  EXPECT_EQ(asked("").cookie("mailgrad"), std::nullopt);
}

TEST(HttpMessage, LetsNoLineEndWithinAnEvent) {
  EXPECT_EQ(server_sent_event("line", "{}"), "event: line\ndata: {}\n\n");
  for (const char* broken : {"a\nb", "a\rb", "\n"}) {
    EXPECT_THROW(server_sent_event("line", broken), std::invalid_argument);
    EXPECT_THROW(server_sent_event(broken, "{}"), std::invalid_argument);
  }
}

http_request request_for(const std::string& method, const std::string& path) {
  http_request r;
  r.method = method;
  r.path = path;
  return r;
}

TEST(HttpRoutes, AnswerByMethodAndPath) {
  http_routes routes;
  routes.add("GET", "/a", [](const http_request&) { return http_response{.body = "got"}; });
  routes.add("POST", "/a", [](const http_request&) { return http_response{.body = "posted"}; });
  EXPECT_EQ(routes.answer(request_for("GET", "/a")).body, "got");
  EXPECT_EQ(routes.answer(request_for("POST", "/a")).body, "posted");
  EXPECT_EQ(routes.answer(request_for("HEAD", "/a")).status, 200U) << "as GET";
}

TEST(HttpRoutes, SayWhatIsNotThere) {
  http_routes routes;
  routes.add("POST", "/a", [](const http_request&) { return http_response{}; });
  for (const char* path : {"/", "/a/", "/../etc/passwd", "*", ""})
    EXPECT_EQ(routes.answer(request_for("GET", path)).status, 404U) << path;
  const http_response wrong = routes.answer(request_for("GET", "/a"));
  EXPECT_EQ(wrong.status, 405U);
  EXPECT_THAT(wrong.fields, ElementsAre(Pair("Allow", "POST")));
}

} // namespace
} // namespace mailgrad
