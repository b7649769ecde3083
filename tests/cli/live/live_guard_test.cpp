#include <mailgrad/cli/live/live_guard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

const std::string token(64, 'a');
const std::string key(64, 'k');

http_request asked(std::map<std::string, std::string> fields, const std::string& query = {}) {
  http_request r;
  r.method = "GET";
  r.path = "/";
  r.query = query;
  r.fields = std::move(fields);
  return r;
}

unsigned status_of(const std::optional<http_response>& refusal) { return refusal ? refusal->status : 200; }

TEST(LiveGuard, LetsOnlyThisMachineBeNamedAsHost) {
  const live_guard guard({"127.0.0.1", 8080}, "", "");
  for (const char* host : {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"})
    EXPECT_EQ(status_of(guard.refuses(asked({{"host", host}}))), 200U) << host;
  for (const char* host : {"evil.example:8080", "127.0.0.1", "127.0.0.1:8081", "",
                           "localhost.evil.example:8080", "127.0.0.1:8080, evil.example"})
    EXPECT_EQ(status_of(guard.refuses(asked({{"host", host}}))), 421U) << host;
}

TEST(LiveGuard, KnowsThatBrowsersLeaveOutPort80) {
  const live_guard guard({"127.0.0.1", 80}, "", "");
  EXPECT_FALSE(guard.refuses(asked({{"host", "localhost"}})));
  EXPECT_FALSE(guard.refuses(asked({{"host", "localhost:80"}})));
  EXPECT_TRUE(guard.refuses(asked({{"host", "localhos"}})));
}

TEST(LiveGuard, TakesATokenInThreeWays) {
  const live_guard guard({"0.0.0.0", 8080}, token, "");
  EXPECT_FALSE(guard.refuses(asked({{"authorization", "Bearer " + token}})));
  EXPECT_FALSE(guard.refuses(asked({}, "token=" + token)));
  EXPECT_FALSE(guard.refuses(asked({{"cookie", "x=1; mailgrad-8080=" + token}})));
  EXPECT_THAT(guard.cookie(), ::testing::AllOf(HasSubstr("HttpOnly"), HasSubstr("SameSite=Strict")));
  EXPECT_EQ(guard.url(), "http://127.0.0.1:8080/?token=" + token);
}

TEST(LiveGuard, RefusesEveryOtherToken) {
  const live_guard guard({"0.0.0.0", 8080}, token, "");
  std::string nearly = token;
  nearly.back() = 'b';
  for (const std::string& wrong : {std::string(), nearly, token.substr(1), token + "a", std::string("a")}) {
    EXPECT_EQ(status_of(guard.refuses(asked({{"authorization", "Bearer " + wrong}}))), 401U) << wrong;
    EXPECT_EQ(status_of(guard.refuses(asked({}, "token=" + wrong))), 401U) << wrong;
    EXPECT_EQ(status_of(guard.refuses(asked({{"cookie", "mailgrad-8080=" + wrong}}))), 401U) << wrong;
  }
  EXPECT_EQ(status_of(guard.refuses(asked({{"host", "127.0.0.1:8080"}}))), 401U);
  EXPECT_EQ(status_of(guard.refuses(asked({{"cookie", "mailgrad-8081=" + token}}))), 401U)
      << "of another run";
}

std::map<std::string, std::string> of_the_page() {
  return {{"host", "127.0.0.1:8080"},
          {"content-type", "application/json"},
          {"origin", "http://127.0.0.1:8080"},
          {"sec-fetch-site", "same-origin"},
          {"x-mailgrad-key", key}};
}

TEST(LiveGuard, LetsThePageChangeTheRun) {
  const live_guard guard({"127.0.0.1", 8080}, token, key);
  EXPECT_FALSE(guard.refuses_change(asked(of_the_page())));
}

TEST(LiveGuard, LetsNobodyElseChangeIt) {
  const live_guard guard({"127.0.0.1", 8080}, token, key);
  const std::pair<const char*, const char*> changes[] = {{"content-type", "text/plain"},
                                                         {"content-type", ""},
                                                         {"origin", "http://evil.example"},
                                                         {"origin", "null"},
                                                         {"origin", "https://127.0.0.1:8080"},
                                                         {"sec-fetch-site", "cross-site"},
                                                         {"sec-fetch-site", "same-site"},
                                                         {"x-mailgrad-key", ""},
                                                         {"x-mailgrad-key", "kkkk"}};
  for (const auto& [field, value] : changes) {
    auto fields = of_the_page();
    fields[field] = value;
    EXPECT_TRUE(guard.refuses_change(asked(fields))) << field << ": " << value;
  }
}

TEST(LiveGuard, LetsNobodyChangeARunThatIsOnlyShown) {
  const live_guard guard({"127.0.0.1", 8080}, "", "");
  auto fields = of_the_page();
  for (const std::string& tried : {key, std::string()}) {
    fields["x-mailgrad-key"] = tried;
    EXPECT_THAT(guard.refuses_change(asked(fields)).value().body, HasSubstr("--live-control"));
  }
}

} // namespace
} // namespace mailgrad
