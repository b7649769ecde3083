#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace mailgrad {

/// In which order ratings are cut into those to train on and those to test on. Such files are sorted by user,
/// so a cut by position would test users of whom nothing was learned.
enum class rating_order : std::uint8_t {
  random,  ///< shuffled by a seed
  by_time, ///< the latest are for testing
};

struct rating_options {
  rating_order order = rating_order::random;
  std::uint64_t seed = 1; ///< of the shuffle
  parsed_limit limit{};   ///< of the samples together
};

/// Reads `user::item::rating::time` lines, as MovieLens and MovieTweetings have them, and where `items` is
/// named, too, `item::title (year)::genre|genre` lines. Ratings are targets. The categories of a sample are,
/// in this order:
///
///   user, item      numbered in the order in which they come
///   year            of the item; 0 if nothing is known of it
///   weekday, hour   of the rating, in UTC; Sunday is 0
///
/// and its numbers say for each genre, in the order in which they come, whether the item has it.
///
/// Source  MovieTweetings: Dooms, De Pessemier & Martens, CrowdRec at RecSys 2013.
/// Shapes  k = 5 categories; d = genres of `items`, 0 without that file.
/// Units   times are seconds since 1970.
/// Errors  file_error with the line: another number of fields; a user, an item, a rating or a time that is
///         none; an item that is described twice; more than 64 genres; more ratings than the limit has room
///         for.
dataset read_ratings(const std::filesystem::path& ratings, const std::filesystem::path& items,
                     const rating_options& options);

} // namespace mailgrad
