#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/demos/custom_cure.hpp>

#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::words_of_refusal;

class namesake_of_fading final : public cure {
public:
  static constexpr std::string_view cure_name = "fading";
  namesake_of_fading(std::span<const double>, const cure_site&) {}
  std::string_view name() const noexcept override { return cure_name; }
};
class impostor_of_inverse final : public cure {
public:
  static constexpr std::string_view cure_name = "inverse";
  impostor_of_inverse(std::span<const double>, const cure_site&) {}
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
  EXPECT_THAT(words_of_refusal([] { custom_cure<namesake_of_fading>(); }),
              HasSubstr("another cure of your own has this name"));
  EXPECT_THAT(words_of_refusal([] { custom_cure<impostor_of_inverse>(); }),
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
