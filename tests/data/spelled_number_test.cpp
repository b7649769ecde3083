#include <mailgrad/data/spelled_number.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::Optional;

TEST(SpelledNumber, IsReadByItsSigns) {
  EXPECT_THAT(spelled_number("1,234.5", {'.', true}), Optional(1234.5));
  EXPECT_THAT(spelled_number("1.234,5", {',', true}), Optional(1234.5));
  EXPECT_THAT(spelled_number("-12.345.678", {',', true}), Optional(-12345678));
  EXPECT_THAT(spelled_number("1,5e-1", {',', false}), Optional(0.15));
  EXPECT_THAT(spelled_number("1 234,5", {',', false}), Optional(1234.5));
  EXPECT_THAT(spelled_number("1\u202f234", {'.', false}), Optional(1234));
  EXPECT_THAT(spelled_number("1'234'567", {'.', false}), Optional(1234567));
  EXPECT_THAT(spelled_number("\u22121.5", {'.', false}), Optional(-1.5));
  EXPECT_THAT(spelled_number(",5", {',', false}), Optional(0.5));
  EXPECT_THAT(spelled_number("+12", {',', false}), Optional(12));
}

TEST(SpelledNumber, HasGroupsOfThreeDigitsByOneSign) {
  for (const char* field :
       {"1,23", "1,2345", "1234,567", "0,123", "1,234 567", "1,234,56", ",123", "1,", "1,,234"})
    EXPECT_EQ(spelled_number(field, {'.', true}), std::nullopt) << field;
  EXPECT_EQ(spelled_number("1,234", {'.', false}), std::nullopt);
  EXPECT_EQ(spelled_number("1.234", {',', false}), std::nullopt);
}

/// Programs that write an exponent write no thousands.
TEST(SpelledNumber, HasNoThousandsBesideAnExponent) {
  EXPECT_EQ(spelled_number("1.100e5", {',', true}), std::nullopt);
  EXPECT_EQ(spelled_number("1 234E3", {'.', false}), std::nullopt);
  EXPECT_EQ(readings_of("1.100e+05").by_comma, std::nullopt);
  EXPECT_THAT(readings_of("1.100e+05").by_point, Optional(1.1e5));
}

TEST(SpelledNumber, IsNoWordDateOrAddress) {
  for (const char* field :
       {"", "-", "abc", "1/2/2020", "31.12.2020", "192.168.1.1", "1-2", "12:30", "5 kg", "1 2"})
    EXPECT_FALSE(readings_of(field).any()) << field;
}

TEST(NumberReadings, TellWhichDecimalSignsFit) {
  EXPECT_THAT(readings_of("1.5").by_point, Optional(1.5));
  EXPECT_EQ(readings_of("1.5").by_comma, std::nullopt);
  EXPECT_EQ(readings_of("1,5").by_point, std::nullopt);
  EXPECT_THAT(readings_of("1,5").by_comma, Optional(1.5));
  EXPECT_THAT(readings_of("1,234").by_point, Optional(1234));
  EXPECT_THAT(readings_of("1,234").by_comma, Optional(1.234));
  EXPECT_THAT(readings_of("12").by_comma, Optional(12));
}

} // namespace
} // namespace mailgrad
