#include <mailgrad/engine/account/training_report.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using state = run_member::state;

run_member worker(std::uint32_t number, state is, double heard = 0.1) {
  run_member m{"worker", number, 1, is};
  m.since = 5;
  m.heard = heard;
  m.address = "10.0.0.3:51234";
  m.devices = {"cpu:0"};
  return m;
}

TEST(RunMember, IsToldWithTheFieldsThatToolsRead) {
  run_member lost = worker(1, state::lost, 6.5);
  lost.incarnation = 3;
  lost.losses = 2;
  lost.why = "it was killed";
  run_member host{"parameter host", 0, 1, state::joined};
  const nlohmann::json all = nlohmann::json::parse(to_json({host, lost, worker(0, state::joined)}));
  EXPECT_EQ(all["counts"], nlohmann::json::parse(R"({"worker": {"joined": 1, "done": 0, "left": 0, "lost": 1},
                                  "parameter host": {"joined": 1, "done": 0, "left": 0, "lost": 0}})"));
  ASSERT_THAT(all["listed"], SizeIs(3));
  EXPECT_EQ(all["listed"][1],
            nlohmann::json::parse(R"({"role": "worker", "number": 1, "incarnation": 3, "state": "lost",
      "since_seconds": 5.0, "heard_seconds": 6.5, "address": "10.0.0.3:51234", "devices": ["cpu:0"],
      "shards": [], "losses": 2, "why": "it was killed"})"));
  EXPECT_EQ(all["listed"][0]["number"], 0) << "by their numbers";
  EXPECT_EQ(all["listed"][2]["role"], "parameter host") << "behind the workers";
  EXPECT_TRUE(all["listed"][2]["heard_seconds"].is_null());
}

TEST(RunMember, IsCountedByItsRoleAndItsState) {
  std::vector<run_member> all{
      worker(0, state::joined), {"parameter host", 0}, worker(1, state::lost), worker(2, state::joined)};
  all[2].losses = 1;
  all[3].losses = 2;
  const std::vector<member_counts> counts = counted(all);
  ASSERT_THAT(counts, SizeIs(2));
  EXPECT_EQ(counts[0].role, "worker");
  EXPECT_THAT(counts[0].in, ElementsAre(2, 0, 0, 1)) << "joined, done, left, lost";
  EXPECT_EQ(counts[0].losses, 3U);
  EXPECT_THAT(counts[1].in, ElementsAre(1, 0, 0, 0));
}

TEST(RunMember, IsListedIfAnOperatorMustLookAtIt) {
  std::vector<run_member> all;
  for (std::uint32_t n = 0; n < 200; ++n) all.push_back(worker(n, state::joined, n == 150 ? 1.4 : 0.1));
  all[170].is = state::lost;
  all[190].is = state::left;
  const nlohmann::json told = nlohmann::json::parse(to_json(all));
  ASSERT_THAT(told["listed"], SizeIs(most_members_listed));
  std::vector<int> last;
  for (std::size_t i = most_members_listed - 3; i < most_members_listed; ++i)
    last.push_back(told["listed"][i]["number"]);
  EXPECT_THAT(last, ElementsAre(150, 170, 190)) << "unheard for longest, lost, left";
  EXPECT_EQ(told["counts"]["worker"],
            nlohmann::json::parse(R"({"joined": 198, "done": 0, "left": 1, "lost": 1})"));
}

TEST(RunMember, IsListedFirstOfThoseThatAreLostIfItWentLast) {
  std::vector<run_member> all;
  for (std::uint32_t n = 0; n < 200; ++n) {
    all.push_back(worker(n, state::lost));
    all.back().since = 200 - n;
  }
  const nlohmann::json told = nlohmann::json::parse(to_json(all));
  ASSERT_THAT(told["listed"], SizeIs(most_members_listed));
  EXPECT_EQ(told["listed"][0]["number"], 200 - most_members_listed);
}

/// However many they are and whatever they said.
TEST(RunMember, TakesARoomThatIsBounded) {
  std::vector<run_member> all;
  for (std::uint32_t n = 0; n < 10'000; ++n) {
    all.push_back(worker(n, state::lost));
    all.back().why = std::string(5'000, 'x');
  }
  EXPECT_LT(to_json(all).size(), 64U << 10);
  all.resize(most_members_listed + 1); // the more devices need the more memory here
  for (run_member& m : all) m.devices.assign(1'000, std::string(1'000, 'd'));
  EXPECT_LT(to_json(all).size(), 128U << 10);
  EXPECT_THAT(to_json(all), HasSubstr("\"and 984 more\""));
  EXPECT_THAT(to_json(all), HasSubstr("xxx...\""));
}

TEST(RunMember, NamesTheFirstShardsOfAHostOfMany) {
  run_member host{"parameter host", 0, 1, state::joined};
  host.shards.resize(100);
  EXPECT_THAT(nlohmann::json::parse(to_json({host}))["listed"][0]["shards"], SizeIs(16));
}

} // namespace
} // namespace mailgrad
