#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::small_data;
using testing::small_model;

run_plan small_plan() {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 0}};
  o.policy = "ssp:2";
  o.cure = "dc-asgd:0.1";
  o.optimizer = parse_optimizer("adam");
  o.batch = 8;
  o.shards = 2;
  return plan_run(small_model(), small_data(), o);
}

shard_terms terms_of_shard(std::uint32_t s) {
  return terms_of(small_plan(), shard_index{s}, {.records = true});
}

TEST(ShardTerms, AreReadAsTheyWereWritten) {
  const std::vector<shard_terms> read = read_shard_terms(write_terms({terms_of_shard(0), terms_of_shard(1)}));
  ASSERT_EQ(read.size(), 2U);
  const run_plan plan = small_plan();
  for (std::uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(read[s].shard.value, s);
    EXPECT_EQ(read[s].values, plan.first_values(s));
    EXPECT_EQ(read[s].layout->shard(s).size(), plan.layout->shard(s).size());
    EXPECT_EQ(name(read[s].rule), "adam");
    EXPECT_EQ(read[s].policy, "ssp:2");
    EXPECT_EQ(read[s].cure, plan.cure.text());
    EXPECT_EQ(read[s].workers, 2U);
    EXPECT_TRUE(read[s].records);
  }
}

struct wrong_terms {
  const char* name;
  std::function<void(shard_terms&)> change;
  const char* words;
};

struct WrongShardTerms : ::testing::TestWithParam<wrong_terms> {};

TEST_P(WrongShardTerms, AreRefusedInOneLine) {
  shard_terms t = terms_of_shard(1);
  GetParam().change(t);
  const std::string bytes = write_terms({t});
  EXPECT_THAT([&] { read_shard_terms(bytes); },
              ::testing::ThrowsMessage<archive_error>(HasSubstr(GetParam().words)));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongShardTerms,
    ::testing::Values(
        wrong_terms{"Shard", [](shard_terms& x) { x.shard = {2}; }, "expected a shard from 0 to 1, found 2"},
        wrong_terms{"FewWeights", [](shard_terms& x) { x.values.pop_back(); }, "weights, found"},
        wrong_terms{"ManyWeights", [](shard_terms& x) { x.values.push_back(0); }, "weights, found"},
        wrong_terms{"NoWorker", [](shard_terms& x) { x.workers = 0; }, "found 0 and 2"},
        wrong_terms{"FewSlots", [](shard_terms& x) { x.slots = 1; }, "found 2 and 1"},
        wrong_terms{"ManySlots", [](shard_terms& x) { x.slots = 0xffffffff; }, "found 2 and 4294967295"},
        wrong_terms{"NoPolicy", [](shard_terms& x) { x.policy = "asink"; }, "asink"},
        wrong_terms{"NoCure", [](shard_terms& x) { x.cure = "prayer"; }, "prayer"},
        wrong_terms{"CutsForARule", [](shard_terms& x) { x.rule = parse_optimizer("muon"); },
                    "expected shards of whole variables for optimizer 'muon', found cuts within them"},
        wrong_terms{"CutsForACure", [](shard_terms& x) { x.cure = "heloco"; },
                    "expected shards of whole variables for cure 'heloco', found cuts within them"},
        wrong_terms{"PluginOfPolicy", [](shard_terms& x) { x.policy = "./library.so:1"; },
                    "plug-in is loaded by"},
        wrong_terms{"PluginOfCure", [](shard_terms& x) { x.cure = "./library.so:1"; },
                    "plug-in is loaded by"}),
    [](const auto& wrong) { return wrong.param.name; });

TEST(ShardTerms, AreOfOneRun) {
  shard_terms other = terms_of_shard(1);
  other.run = {7};
  const std::string bytes = write_terms({terms_of_shard(0), other});
  EXPECT_THAT([&] { read_shard_terms(bytes); },
              ::testing::ThrowsMessage<archive_error>(HasSubstr("of one run")));
  const std::string twice = write_terms({terms_of_shard(1), terms_of_shard(1)});
  EXPECT_THAT([&] { read_shard_terms(twice); },
              ::testing::ThrowsMessage<archive_error>(HasSubstr("shard 1 twice")));
  shard_terms wired = terms_of_shard(1);
  wired.wire = "int8";
  const std::string mixed = write_terms({terms_of_shard(0), wired});
  EXPECT_THAT([&] { read_shard_terms(mixed); },
              ::testing::ThrowsMessage<archive_error>(HasSubstr("of one run")));
  EXPECT_THAT([] { read_shard_terms(write_terms({})); },
              ::testing::ThrowsMessage<archive_error>(HasSubstr("expected a shard, found none")));
}

TEST(ShardTerms, AreRefusedWhereverTheyAreCut) {
  const std::string whole = write_terms({terms_of_shard(0)});
  for (std::size_t n = 0; n < whole.size(); n += 7)
    EXPECT_THROW(read_shard_terms(std::string_view(whole).substr(0, n)), archive_error) << n;
}

TEST(ShardTerms, TellNoRuleOfTheUsersOwnThatHasNoTable) {
  shard_terms t = terms_of_shard(0);
  custom_rule mine;
  mine.label = "mine";
  t.rule.rule = mine;
  EXPECT_THAT([&] { write_terms({t}); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("'mine'")));
}

} // namespace
} // namespace mailgrad
