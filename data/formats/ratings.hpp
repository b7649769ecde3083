#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

/// The order of ratings before they are cut into a training set and a test set. Files of ratings are sorted
/// by user, so without another order the test set would hold users of whom nothing was learnt.
enum class rating_order : std::uint8_t {
  random,  ///< shuffled by a seed
  by_time, ///< the latest ratings are for testing
};

struct rating_options {
  rating_order order = rating_order::random;
  std::uint64_t seed = 1; ///< of the shuffle
  parsed_limit limit{};   ///< for all samples together
};

/// Reads `user::item::rating::time` lines, as MovieLens and MovieTweetings have them. If `items` is not
/// empty, it is a file of `item::title (year)::genre|genre` lines. Ratings are targets. The categories of a
/// sample are, in this order:
///
///   user, item      numbered in the order in which they first occur
///   year            of the item; 0 if it is unknown
///   weekday, hour   of the rating, in UTC; Sunday is 0
///
/// The numbers of a sample say for each genre whether the item has it. Genres are numbered in the order in
/// which they first occur.
///
/// Source  MovieTweetings: Dooms, De Pessemier & Martens, CrowdRec at RecSys 2013.
/// Shapes  k = 5 categories; d = genres of `items`, 0 without that file.
/// Units   times are seconds since 1970.
/// Errors  file_error with the line: another number of fields; a user, an item, a rating or a time that is
///         not a number in range; an item that is described twice; more than 64 genres. file_error: no
///         ratings, or more of them than the limit has room for.
dataset read_ratings(const std::filesystem::path& ratings, const std::filesystem::path& items,
                     const rating_options& options);

} // namespace mailgrad
