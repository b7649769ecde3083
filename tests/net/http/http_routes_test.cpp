#include <mailgrad/net/http/http_message.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

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
