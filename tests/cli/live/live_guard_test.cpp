#include <mailgrad/cli/live/live_guard.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <fstream>

namespace mailgrad {
namespace {

using namespace ::testing;

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
  for (const char* host : {"localhost", "localhost:80"})
    EXPECT_FALSE(guard.refuses(asked({{"host", host}}))) << host;
  EXPECT_TRUE(guard.refuses(asked({{"host", "localhos"}})));
}

TEST(LiveGuard, TakesATokenInThreeWays) {
  const live_guard guard({"0.0.0.0", 8080}, token, "");
  EXPECT_FALSE(guard.refuses(asked({{"authorization", "Bearer " + token}})));
  EXPECT_FALSE(guard.refuses(asked({}, "token=" + token)));
  EXPECT_FALSE(guard.refuses(asked({{"cookie", "x=1; mailgrad-8080=" + token}})));
  EXPECT_THAT(guard.cookie(), AllOf(HasSubstr("HttpOnly"), HasSubstr("SameSite=Strict")));
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
  for (const auto& [field, value] : {std::pair{"content-type", "text/plain"},
                                     {"content-type", ""},
                                     {"origin", "http://evil.example"},
                                     {"origin", "null"},
                                     {"origin", "https://127.0.0.1:8080"},
                                     {"sec-fetch-site", "cross-site"},
                                     {"sec-fetch-site", "same-site"},
                                     {"x-mailgrad-key", ""},
                                     {"x-mailgrad-key", "kkkk"}}) {
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

live_args words(const std::string& address) {
  live_args w;
  w.wanted = true;
  w.address = address;
  return w;
}

struct LiveArgs : Test {
  std::string token_file(const std::string& text, mode_t mode = 0600) const {
    const std::string path = (folder.path() / "token").string();
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  const scratch_folder folder;
};

TEST_F(LiveArgs, AskForNoPageByDefault) { EXPECT_FALSE(understood(live_args{})); }

TEST_F(LiveArgs, ListenOnThisMachineWithoutAToken) {
  const live_options o = understood(words("")).value();
  EXPECT_TRUE(o.where.is_loopback());
  EXPECT_TRUE(o.any_port);
  EXPECT_THAT(o.token, IsEmpty());
  EXPECT_FALSE(understood(words("127.0.0.1:9"))->any_port) << "another one is not what was asked for";
}

TEST_F(LiveArgs, DrawATokenOffThisMachineAndForControl) {
  EXPECT_THAT(understood(words("0.0.0.0:0"))->token, SizeIs(64));
  EXPECT_NE(understood(words("0.0.0.0:0"))->token, understood(words("0.0.0.0:0"))->token);
  live_args w = words("");
  w.control = true;
  EXPECT_THAT(understood(w)->token, SizeIs(64));
}

TEST_F(LiveArgs, TakeATokenFromAFileOfItsOwnerAlone) {
  live_args w = words("");
  w.token_file = token_file("abcdefgh-ABCDEFGH_0\n");
  EXPECT_EQ(understood(w)->token, "abcdefgh-ABCDEFGH_0");
  w.token_file = token_file(std::string(256, 'a') + "\r\n");
  EXPECT_EQ(understood(w)->token, std::string(256, 'a')) << "a line end of Windows";
}

TEST_F(LiveArgs, RefuseATokenThatOthersReadOrGuess) {
  const auto with = [&](const std::string& text, mode_t mode = 0600) {
    live_args w = words("");
    w.token_file = token_file(text, mode);
    return understood(w);
  };
  for (const mode_t mode : {0640U, 0604U, 0644U, 0666U, 0620U})
    EXPECT_THAT([&] { with(std::string(32, 'a'), mode); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("chmod 600")));
  for (const std::string& text : std::vector<std::string>{
           "", "short", std::string(15, 'a'), std::string(257, 'a'), std::string(1 << 20, 'a'),
           "two lines\nof a token here", "a token with blanks in it", "aaaaaaaaaaaaaaaa;Path=x"})
    EXPECT_THAT([&] { with(text); }, ThrowsMessage<std::invalid_argument>(HasSubstr("expected one line")));
  live_args absent = words("");
  absent.token_file = (folder.path() / "none").string();
  EXPECT_ANY_THROW(understood(absent));
}

TEST_F(LiveArgs, NameTheOptionThatIsWrong) {
  EXPECT_THAT([] { understood(words("run.rec")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("--live: 'run.rec'")));
}

TEST_F(LiveArgs, BecomeWordsAgain) {
  live_args w = words("127.0.0.1:0");
  w.control = true;
  w.token_file = "t";
  EXPECT_THAT(words_of(w), ElementsAre("--live=127.0.0.1:0", "--live-token=t", "--live-control"));
  EXPECT_THAT(words_of(words("")), ElementsAre("--live"));
  EXPECT_THAT(words_of(live_args{}), IsEmpty());
}

} // namespace
} // namespace mailgrad
