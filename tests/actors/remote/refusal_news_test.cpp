#include <mailgrad/actors/remote/acceptor.hpp>

#include <gtest/gtest.h>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;

TEST(RefusalNews, TellTheFirstOfAMinuteAndCountTheOthers) {
  refusal_news news;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(news.refused("refused A", 5s + i * 1s), "refused A");
  for (int i = 0; i < 500; ++i) EXPECT_EQ(news.refused("refused B", 10s), std::nullopt);
  EXPECT_EQ(news.refused("refused C", 64s), std::nullopt);
  EXPECT_EQ(news.refused("refused D", 65s), "refused 501 more connections; the last: refused C\nrefused D");
  EXPECT_EQ(news.rest(), "");
}

TEST(RefusalNews, TellAtTheEndWhoWasCounted) {
  refusal_news news;
  for (int i = 0; i < 4; ++i) news.refused("refused A", 1s);
  EXPECT_EQ(news.rest(), "refused 1 more connection; the last: refused A");
  EXPECT_EQ(news.rest(), "");
}

} // namespace
} // namespace mailgrad::remote
