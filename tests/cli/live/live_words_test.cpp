#include <mailgrad/cli/live/live_guard.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

live_words words(const std::string& address) {
  live_words w;
  w.wanted = true;
  w.address = address;
  return w;
}

class LiveWords : public ::testing::Test {
protected:
  std::string token_file(const std::string& text, mode_t mode = 0600) const {
    const std::string path = (folder_.path() / "token").string();
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  const scratch_folder folder_;
};

TEST_F(LiveWords, AskForNoPageByDefault) { EXPECT_FALSE(understood(live_words{})); }

TEST_F(LiveWords, ListenOnThisMachineWithoutAToken) {
  const live_options o = understood(words("")).value();
  EXPECT_TRUE(o.where.is_loopback());
  EXPECT_TRUE(o.any_port);
  EXPECT_THAT(o.token, IsEmpty());
  EXPECT_FALSE(understood(words("127.0.0.1:9"))->any_port) << "another one is not what was asked for";
}

TEST_F(LiveWords, DrawATokenOffThisMachineAndForControl) {
  EXPECT_THAT(understood(words("0.0.0.0:0"))->token, SizeIs(64));
  EXPECT_NE(understood(words("0.0.0.0:0"))->token, understood(words("0.0.0.0:0"))->token);
  live_words w = words("");
  w.control = true;
  EXPECT_THAT(understood(w)->token, SizeIs(64));
}

TEST_F(LiveWords, TakeATokenFromAFileOfItsOwnerAlone) {
  live_words w = words("");
  w.token_file = token_file("abcdefgh-ABCDEFGH_0\n");
  EXPECT_EQ(understood(w)->token, "abcdefgh-ABCDEFGH_0");
  w.token_file = token_file(std::string(256, 'a') + "\r\n");
  EXPECT_EQ(understood(w)->token, std::string(256, 'a')) << "a line end of Windows";
}

TEST_F(LiveWords, RefuseATokenThatOthersReadOrGuess) {
  const auto with = [&](const std::string& text, mode_t mode = 0600) {
    live_words w = words("");
    w.token_file = token_file(text, mode);
    return understood(w);
  };
  for (const mode_t mode : {0640U, 0604U, 0644U, 0666U, 0620U})
    EXPECT_THAT([&] { with(std::string(32, 'a'), mode); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("chmod 600")));
  for (const std::string& text :
       {std::string(), std::string("short"), std::string(15, 'a'), std::string(257, 'a'),
        std::string(1 << 20, 'a'), std::string("two lines\nof a token here"),
        std::string("a token with blanks in it"), std::string("aaaaaaaaaaaaaaaa;Path=x")})
    EXPECT_THAT([&] { with(text); }, ThrowsMessage<std::invalid_argument>(HasSubstr("expected one line")));
  live_words absent = words("");
  absent.token_file = (folder_.path() / "none").string();
  EXPECT_ANY_THROW(understood(absent));
}

TEST_F(LiveWords, NameTheOptionThatIsWrong) {
  EXPECT_THAT([] { understood(words("run.rec")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("--live: 'run.rec'")));
}

TEST_F(LiveWords, BecomeWordsAgain) {
  live_words w = words("127.0.0.1:0");
  w.control = true;
  w.token_file = "t";
  EXPECT_THAT(words_of(w), ElementsAre("--live=127.0.0.1:0", "--live-token=t", "--live-control"));
  EXPECT_THAT(words_of(words("")), ElementsAre("--live"));
  EXPECT_THAT(words_of(live_words{}), IsEmpty());
}

} // namespace
} // namespace mailgrad
