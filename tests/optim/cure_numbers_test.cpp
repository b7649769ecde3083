#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

bool is_taken(const std::string& text) {
  try {
    make_cure(text, {4, 8, 0.1});
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
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
    EXPECT_FALSE(is_taken(text)) << text;
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

} // namespace
} // namespace mailgrad
