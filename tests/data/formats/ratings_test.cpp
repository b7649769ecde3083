#include <mailgrad/data/formats/ratings.hpp>
#include <mailgrad/data/open.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Times: 0 is a Thursday, 0 h; a day later 1 h; then 3 January 2021, a Sunday, 23:59:59.
constexpr const char* three_ratings = "7::100::8::0\n9::100::2.5::90000\n7::300::0::1609718399\n";
constexpr const char* two_films = "100::Of: A :: Title (1999)::Drama|War\n200::Unrated (2000)::Comedy\n";

class Ratings : public ::testing::Test {
protected:
  dataset read(std::string_view ratings, std::string_view films = "",
               rating_options o = {rating_order::by_time}) {
    const auto rated = folder.write("ratings.dat", ratings);
    return read_ratings(rated, films.empty() ? std::filesystem::path() : folder.write("movies.dat", films),
                        o);
  }
  std::string refusal(std::string_view ratings, std::string_view films = "") {
    return complaint([&] { read(ratings, films); });
  }
  static const categorical_features& features(const dataset& d) {
    return std::get<categorical_features>(d.features());
  }

  const scratch_folder folder;
};

TEST_F(Ratings, NumbersUsersItemsAndTimes) {
  const dataset d = read(three_ratings);
  EXPECT_THAT(features(d).counts, ElementsAre(2, 2, 1, 7, 24));
  EXPECT_THAT(features(d).categories, ElementsAre(0, 0, 0, 4, 0, 1, 0, 0, 5, 1, 0, 1, 0, 0, 23));
  EXPECT_THAT(d.targets(), ElementsAre(8.0F, 2.5F, 0.0F));
  EXPECT_EQ(d.sample_dims(), shape{0});
}

TEST_F(Ratings, KnowsYearsAndGenresOfDescribedItems) {
  const dataset d = read(three_ratings, two_films);
  EXPECT_EQ(features(d).counts[2], 2U) << "unknown and 1999; nobody rated one of 2000";
  EXPECT_EQ(features(d).categories[2], 1);
  EXPECT_EQ(features(d).categories[12], 0);
  EXPECT_EQ(d.sample_dims(), shape{3});
  EXPECT_THAT(features(d).values, ElementsAre(1, 1, 0, 1, 1, 0, 0, 0, 0));
}

TEST_F(Ratings, OrdersByTimeOrByASeed) {
  std::string many;
  for (int i = 0; i < 50; ++i) many += "1::" + std::to_string(i) + "::1::" + std::to_string(100 - i) + '\n';
  const dataset by_time = read(many);
  EXPECT_EQ(features(by_time).categories[1], 49);
  const auto categories = [&](std::uint64_t seed) {
    return features(read(many, "", {rating_order::random, seed})).categories;
  };
  EXPECT_EQ(categories(1), categories(1));
  EXPECT_NE(categories(1), categories(2));
  const std::vector<std::int32_t> shuffled = categories(3);
  EXPECT_TRUE(std::ranges::is_permutation(shuffled, categories(1)));
  EXPECT_NE(shuffled, features(by_time).categories);
}

TEST_F(Ratings, RefusesALineThatIsNoRating) {
  EXPECT_EQ(refusal("1::2::3::4\n1::2::3\n"),
            "ratings.dat: line 2: expected user::item::rating::time, found '1::2::3'");
  EXPECT_THAT(refusal("x::2::3::4\n"), HasSubstr("line 1: expected a user's number, found 'x'"));
  EXPECT_THAT(refusal("1::-2::3::4\n"), HasSubstr("line 1: expected an item's number, found '-2'"));
  EXPECT_THAT(refusal("1::2::nan::4\n"), HasSubstr("expected a rating that is a finite number, found 'nan'"));
  EXPECT_THAT(refusal("1::2::3::4::5\n"), HasSubstr("expected a time in seconds since 1970"));
  EXPECT_THAT(refusal("1::2::3::999999999999999\n"), HasSubstr("at most 253402300799"));
  EXPECT_THAT(refusal(""), HasSubstr("found an empty file"));
}

TEST_F(Ratings, RefusesALineThatDescribesNoItem) {
  const auto why = [&](std::string_view films) { return refusal(three_ratings, films); };
  EXPECT_EQ(why("1::A (1999)::Drama\n2::B\n"),
            "movies.dat: line 2: expected item::title (year)::genre|genre, found '2::B'");
  EXPECT_THAT(why("a::A::Drama\n"), HasSubstr("expected an item's number, found 'a'"));
  EXPECT_THAT(why("1::A::X\n1::B::X\n"), HasSubstr("line 2: expected an item that was not described before"));
  std::string genres = "1::A::";
  for (int i = 0; i < 65; ++i) genres += std::to_string(i) + '|';
  EXPECT_THAT(why(genres + '\n'), HasSubstr("expected at most 64 genres, found '64'"));
}

TEST_F(Ratings, AreFoundInAFolderAndAsAFile) {
  const auto file = folder.write("ratings.dat", three_ratings);
  for (const std::string& path : {folder.path().string(), file.string()})
    EXPECT_EQ(open_data(path).train.sample_dims(), shape{0}) << path;
  folder.write("movies.dat", two_films);
  for (const std::string& path : {folder.path().string(), file.string()}) {
    const data_split split = open_data(path);
    EXPECT_EQ(split.train.size(), 2U);
    EXPECT_EQ(split.test.size(), 1U);
    EXPECT_EQ(split.train.sample_dims(), shape{3}) << path;
    EXPECT_EQ(features(split.test).counts, features(split.train).counts);
  }
}

TEST_F(Ratings, AreKnownByTheirFirstLines) {
  const auto file = folder.write("mine", three_ratings);
  EXPECT_TRUE(open_data(file.string()).train.has_targets());
}

TEST_F(Ratings, AreNoClasses) {
  const auto file = folder.write("ratings.dat", three_ratings);
  EXPECT_THAT(complaint([&] { open_data(file.string(), {.task = label_kind::classes}); }),
              HasSubstr("expected classes, found ratings, which are numbers to predict"));
}

} // namespace
} // namespace mailgrad
