#include <mailgrad/net/http/http_message.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mailgrad {
namespace {

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

} // namespace
} // namespace mailgrad
