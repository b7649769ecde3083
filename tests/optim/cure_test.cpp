#include <mailgrad/demos/custom_cure.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::words_of_refusal;

double factor(const std::string& text, std::uint64_t gap, std::uint32_t workers = 8) {
  return make_cure(text, {workers})->factor(gap);
}

TEST(StepScale, LeavesAFreshGradientAlone) {
  for (const cure_form& form : cure_forms()) {
    const std::string name(form.text.substr(0, form.text.find(':')));
    if (name != "rescaled") { // it is short for fresh ones, and long for those of slow workers
      EXPECT_EQ(factor(name, 0), 1) << name;
    }
    EXPECT_EQ(make_cure(name, {4})->has_factor(), factor(name, 9, 1) != 1) << name;
    EXPECT_EQ(make_cure(name, {4})->name(), name);
  }
  EXPECT_EQ(make_cure("none", {4}), nullptr);
}

/// Whether gradient descent on x^2 / 2 with a fixed delay comes to rest.
bool settles(double rate, std::uint64_t delay) {
  std::vector<double> x(delay + 1, 1.0);
  for (int t = 0; t < 20'000; ++t) x.push_back(x.back() - rate * x[x.size() - 1 - delay]);
  return std::abs(x.back()) < 1e-3;
}

// x' = x - a x(t - tau) is stable below 2 sin(pi / (2 (2 tau + 1))): a rate that fits no delay beyond 1 fits
// every delay under these cures.
TEST(StepScale, MakesOneLearningRateFitEveryDelay) {
  for (const std::uint64_t delay : {2U, 4U, 8U, 16U, 32U}) {
    const double limit = 2 * std::sin(std::numbers::pi / (2.0 * (2.0 * static_cast<double>(delay) + 1)));
    EXPECT_TRUE(settles(0.95 * limit, delay)) << "delay " << delay;
    EXPECT_FALSE(settles(1.05 * limit, delay)) << "delay " << delay;
    EXPECT_FALSE(settles(0.95, delay)) << "no cure, delay " << delay;
    EXPECT_TRUE(settles(0.95 * factor("inverse", delay), delay)) << "delay " << delay;
    EXPECT_TRUE(settles(1.5 * factor("dynsgd", delay), delay)) << "delay " << delay;
  }
}

using policies = std::vector<std::string_view>;

/// Four workers under these policies.
cure_setting under(const policies& names) {
  cure_setting setting{{}, 4};
  for (const std::string_view name : names) setting.policies.emplace_back(name, setting.workers);
  return setting;
}

/// Empty if the cure is taken.
std::string refusal(const std::string& text, const cure_setting& setting = under({"async"})) {
  return words_of_refusal([&] { cure_spec(text, setting.workers).require_fits(setting); });
}

TEST(Cure, SaysWhatWouldBeRight) {
  EXPECT_THAT(refusal("invers"), HasSubstr("did you mean 'inverse'"));
  EXPECT_THAT(refusal("polynomial:x"), HasSubstr("write it as polynomial:A"));
  EXPECT_THAT(refusal("polynomial:-1"), HasSubstr("from 0 on"));
  EXPECT_THAT(refusal("hinge:1"), HasSubstr("hinge:A,B"));
  EXPECT_THAT(refusal("hinge:1,2,3"), HasSubstr("hinge:A,B"));
  EXPECT_THAT(refusal("inverse:2"), HasSubstr("write it as inverse"));
  EXPECT_EQ(refusal("hinge:1,2"), "");
}

TEST(Cure, IsRefusedWhereItCanDoNothing) {
  for (const policies& fresh :
       {policies{"sync"}, {"sync", "rennala:4", "backup:1"}, {"ringmaster:1", "k-async:4"}})
    EXPECT_THAT(refusal("inverse", under(fresh)), HasSubstr("nothing to cure")) << fresh.front();
  EXPECT_THAT(refusal("rescaled", under({"malenia:4"})), HasSubstr("nothing to cure"));
  for (const char* cure : {"inverse", "rescaled", "fedbuff", "dc-asgd", "easgd"})
    EXPECT_THAT(refusal(cure, under({"async", "ringleader"})),
                HasSubstr("under ringleader a gradient is part of several updates"));
  EXPECT_THAT(refusal("inverse", under({"hogwild"})), HasSubstr("no shard sees a gradient"));
  EXPECT_EQ(refusal("inverse", under({"sync", "async"})), "");
  EXPECT_EQ(refusal("none", under({"sync"})), "");
}

TEST(Cure, IsRefusedWhereItsPaperDefinesNothing) {
  struct row {
    const char *cure, *optimizer;
    policies names;
    std::uint64_t local_steps;
    const char* says; ///< empty: the cure is taken
    double rate = 1;
  };
  const char* const ahead = "under sync workers would begin ahead of weights that nobody moves meanwhile";
  std::vector<row> all{
      {"dana-zero", "sgd", {"async"}, 0, ""},
      {"dana-slim:0.5", "sgd", {"ssp:2", "async"}, 0, ""},
      {"dana-zero", "momentum", {"async"}, 0, "take --optimizer sgd, not momentum"},
      {"dana-dc", "sgd", {"async", "sync"}, 0, "under sync an update is no single"},
      {"dana-zero:1", "sgd", {"async"}, 0, "below 1"},
      {"dana-zero", "momentum", {"async"}, 4, "take --outer-optimizer sgd, not momentum"},
      {"easgd", "sgd", {"async"}, 4, ""},
      {"easgd", "sgd", {"sync"}, 4, ""},
      {"easgd", "sgd", {"async", "sync"}, 4, ""},
      {"easgd", "sgd", {"async"}, 0, "as --local-steps 4"},
      {"easgd", "sgd", {"async"}, 4, "take --outer-optimizer sgd --outer-lr 1", 0.1},
      {"easgd", "sgd", {"k-async:2"}, 4, "take async or sync"},
      {"easgd", "sgd", {"async", "ringmaster:2"}, 4, "not define it under ring"},
      {"gap-aware", "nesterov", {"async"}, 0, ""},
      {"gap-aware", "adam", {"async"}, 0, "not of adam"},
      {"gap-aware", "sgd", {"k-async:2"}, 0, "no single gradient"},
      {"momentum-compensation", "momentum", {"async"}, 0, ""},
      {"momentum-compensation", "momentum", {"sync", "async"}, 0, "nothing would bring it back"},
      {"momentum-compensation", "adam", {"async"}, 0, "not adam"},
      {"mla", "nesterov", {"async", "sync"}, 4, ahead},
      {"cgad", "adam", {"async"}, 4, ""},
      {"cgad", "adamw", {"async"}, 4, ""},
      {"cgad", "adam", {"async"}, 0, "as --local-steps 4"},
      {"cgad:0.1,1", "adam", {"async"}, 4, "every stale difference would be dropped"},
      {"cgad:0.1,2", "adam", {"async"}, 4, ""},
      {"cgad", "nesterov", {"async"}, 4, "adam or adamw, not nesterov"},
      {"cgad", "adam", {"sync"}, 4, "nothing to cure"}};
  for (const char* cure : {"mla", "heloco"}) {
    for (const char* outer : {"nesterov", "momentum"}) all.push_back({cure, outer, {"async"}, 4, ""});
    all.push_back({cure, "nesterov", {"k-batch-async:2"}, 4, ""});
    all.push_back({cure, "nesterov", {"async"}, 0, "as --local-steps 4"});
    all.push_back({cure, "adam", {"async"}, 4, "take --outer-optimizer nesterov or momentum, not"});
    all.push_back({cure, "nesterov", {"sync"}, 4, "nothing to cure"});
  }
  for (const row& r : all) {
    cure_setting setting = under(r.names);
    setting.optimizer = parse_optimizer(r.optimizer);
    setting.local_steps = r.local_steps;
    setting.optimizer.learning_rate = r.rate;
    const std::string why = refusal(r.cure, setting);
    EXPECT_EQ(why.empty(), std::string_view(r.says).empty()) << r.cure << " with " << r.optimizer;
    EXPECT_THAT(why, HasSubstr(r.says)) << r.cure << " with " << r.optimizer;
  }
}

bool is_taken(const std::string& text) {
  return words_of_refusal([&] { make_cure(text, {4, 8, 0.1}); }).empty();
}

TEST(CureNumbers, AreAllThatItsFormHasOrNone) {
  for (const cure_form& form : cure_forms()) {
    const std::size_t colon = form.text.find(':');
    const std::string name(form.text.substr(0, colon));
    const auto commas = static_cast<std::size_t>(std::ranges::count(form.text, ','));
    const std::size_t wanted = colon == std::string_view::npos ? 0 : commas + 1;
    EXPECT_TRUE(is_taken(name));
    std::string text = name + ":0.5";
    for (std::size_t count = 1; count < 5; ++count, text += ",0.5")
      EXPECT_EQ(is_taken(text), count == wanted) << text;
  }
}

TEST(CureNumbers, OfAMomentumAndOfAPullAreBelowOne) {
  for (const char* text :
       {"dana-zero:1", "dana-slim:1", "dana-dc:1,0.5", "dana-dc:1.5,0.5", "easgd:1", "heloco:1"})
    EXPECT_FALSE(is_taken(text)) << text;
  for (const char* text : {"dana-zero:0.99", "dana-slim:0", "dana-dc:0.5,1", "dana-dc:0,7", "easgd:0.99",
                           "polynomial:1", "polynomial:7", "hinge:1,1", "hinge:7,9", "dc-asgd:1",
                           "dc-asgd-a:7", "heloco:0.99", "mla:12", "cgad:2,0"})
    EXPECT_TRUE(is_taken(text)) << text;
}

TEST(CureNumbers, AreNumbersFromZeroOn) {
  for (const char* text :
       {"polynomial:", "polynomial:x", "polynomial:1x", "polynomial:-1", "polynomial:nan", "polynomial:inf",
        "hinge:1,", "hinge:,1", "hinge:1,-1", "hinge:1,x", "hinge:x,1", "hinge:1;2"})
    EXPECT_THROW(make_cure(text, {4, 8, 0.1}), std::invalid_argument) << text;
}

// Floats for each weight, as make_cure() tells them.
TEST(CureMemory, IsThatOfItsHeader) {
  const auto states = [](const char* text) { return make_cure(text, {5, 8, 0.1})->states(); };
  for (const char* text :
       {"inverse", "fedbuff", "dc-asgd", "easgd", "momentum-compensation", "cgad", "mla", "heloco"})
    EXPECT_EQ(states(text), 0U) << text;
  for (const char* text : {"dc-asgd-a", "delay-feedback", "gap-aware"}) EXPECT_EQ(states(text), 1U) << text;
  EXPECT_EQ(states("dana-slim"), 5U);
  for (const char* text : {"dana-zero", "dana-dc"}) EXPECT_EQ(states(text), 6U) << text;
}

/// Does nothing under the name of a demo's cure, or of one of Mailgrad's.
template <bool IsOurs>
class namesake_cure final : public cure {
public:
  static constexpr std::string_view cure_name = IsOurs ? "inverse" : "fading";
  namesake_cure(std::span<const double>, const cure_site&) {}
  std::string_view name() const noexcept override { return cure_name; }
};

TEST(CustomCure, IsMadeByItsNameAndNumber) {
  EXPECT_EQ(custom_cure<fading>("0.5"), "fading:0.5");
  const cure_spec spec("fading:0.5", 2);
  EXPECT_TRUE(spec.traits().has_factor);
  EXPECT_FALSE(spec.traits().compensates);
  EXPECT_EQ(spec.make({2})->factor(3), 0.125);
  EXPECT_EQ(make_cure("fading", {2})->factor(1), 0.8) << "its own default";
}

TEST(CustomCure, TakesNoMoreNumbersThanItSays) {
  custom_cure<fading>();
  EXPECT_THAT(words_of_refusal([] { cure_spec("fading:0.5,2", 2); }), HasSubstr("write it as fading:A"));
  EXPECT_THAT(words_of_refusal([] { cure_spec("fading:-1", 2); }), HasSubstr("no number from 0 on"));
  EXPECT_THAT(words_of_refusal([] { cure_spec("fadign", 2); }), HasSubstr("did you mean 'fading'"));
}

TEST(CustomCure, NeedsStaleGradientsUnlessItSaysOtherwise) {
  custom_cure<fading>();
  cure_setting setting{{}, 2};
  setting.policies.emplace_back("sync", 2);
  EXPECT_THAT(words_of_refusal([&] { cure_spec("fading", 2).require_fits(setting); }),
              HasSubstr("nothing to cure"));
  setting.policies.emplace_back("async", 2);
  EXPECT_NO_THROW(cure_spec("fading", 2).require_fits(setting));
}

TEST(CustomCure, KeepsItsNameToItself) {
  custom_cure<fading>();
  EXPECT_NO_THROW(custom_cure<fading>());
  EXPECT_THAT(words_of_refusal([] { custom_cure<namesake_cure<false>>(); }),
              HasSubstr("another cure of your own has this name"));
  EXPECT_THAT(words_of_refusal([] { custom_cure<namesake_cure<true>>(); }),
              HasSubstr("is one of Mailgrad's"));
  custom_cure_entry unnamed = cure_entry<fading>;
  unnamed.name = "a:b";
  EXPECT_THAT(words_of_refusal([&] { register_cure(unnamed); }), HasSubstr("letters, digits, '-' and '_'"));
}

TEST(CustomCure, OfAnotherInterfaceIsRefusedWithBothVersions) {
  custom_cure_entry old = cure_entry<fading>;
  old.interface_version = 7;
  EXPECT_THAT(words_of_refusal([&] { register_cure(old); }),
              HasSubstr("has version 7 of the interface for cures, this mailgrad has version 3"));
}

TEST(CustomCure, ComesFromASharedLibrary) {
  const std::string file = std::string(MAILGRAD_TEST_PLUGINS) + "/fading.so";
  EXPECT_EQ(make_cure(file + ":0.5", {2})->factor(1), 0.5);
  EXPECT_THAT(plugins_of_cure(file + ":0.5"), ElementsAre(file));
  EXPECT_THAT(plugins_of_cure("inverse"), IsEmpty());
  EXPECT_THAT(words_of_refusal([] { cure_spec("./not-there.so", 1); }),
              HasSubstr("cure './not-there.so': cannot be read: No such file"));
}

} // namespace
} // namespace mailgrad
