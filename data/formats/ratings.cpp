#include <mailgrad/data/formats/ratings.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <array>
#include <random>
#include <unordered_map>

namespace mailgrad {

namespace {

constexpr std::string_view separator = "::";
constexpr std::uint64_t last_second = 253402300799; // of the year 9999
constexpr std::uint64_t seconds_in_hour = 3600;
constexpr std::uint64_t hours_in_day = 24;
constexpr std::uint64_t first_weekday = 4; // 1 January 1970 was a Thursday
constexpr std::size_t most_genres = 64;

/// Numbers keys from 0, in the order in which they first occur.
class numbering {
public:
  std::int32_t of(std::uint64_t key) {
    return numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size())).first->second;
  }
  std::size_t size() const noexcept { return numbers_.size(); }

private:
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
};

struct rating {
  std::int32_t user = 0;
  std::int32_t item = 0;
  std::uint64_t item_id = 0;
  std::uint64_t time = 0;
  float value = 0;
};

struct item {
  std::uint64_t year = 0;   ///< 0: unknown
  std::uint64_t genres = 0; ///< a bit for each
};

struct item_table {
  std::unordered_map<std::uint64_t, item> items;
  std::size_t genres = 0;
};

class field_reader {
public:
  explicit field_reader(const std::filesystem::path& file) : lines_(file) {}
  std::optional<std::string_view> next() { return lines_.next(); }
  [[noreturn]] void fail(const std::string& expected, std::string_view found) const {
    throw_malformed(lines_.file(), lines_.number(),
                    fmt::format("expected {}, found {}", expected, in_quotes(found)));
  }

  std::uint64_t number(std::string_view field, const std::string& what) const {
    if (const auto n = parse_whole(field)) return *n;
    fail(what, field);
  }

private:
  line_reader lines_;
};

std::array<std::string_view, 4> four_fields(const field_reader& lines, std::string_view line) {
  std::array<std::string_view, 4> fields;
  std::string_view rest = line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto end = i + 1 < fields.size() ? rest.find(separator) : rest.size();
    if (end == std::string_view::npos) lines.fail("user::item::rating::time", line);
    fields[i] = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + separator.size()));
  }
  return fields;
}

rating parse_rating(const field_reader& lines, std::string_view line, numbering& users, numbering& items) {
  const auto [user, item_id, value, time] = four_fields(lines, line);
  rating r;
  r.user = users.of(lines.number(user, "a user's number"));
  r.item_id = lines.number(item_id, "an item's number");
  r.item = items.of(r.item_id);
  const auto number = parse_number(value);
  if (!number || !fits_float(*number)) lines.fail("a rating that is a finite number", value);
  r.value = static_cast<float>(*number);
  const std::string second = fmt::format("a time in seconds since 1970, at most {}", last_second);
  r.time = lines.number(time, second);
  if (r.time > last_second) lines.fail(second, time);
  return r;
}

/// Returns the year at the end of a title such as "The Cheat (1915)"; 0 if there is none.
std::uint64_t year_of(std::string_view title) {
  constexpr std::size_t length = std::string_view("(1915)").size();
  if (title.size() < length || title.back() != ')' || title[title.size() - length] != '(') return 0;
  return parse_whole(title.substr(title.size() - length + 1, length - 2)).value_or(0);
}

item_table read_items(const std::filesystem::path& file) {
  field_reader lines(file);
  std::map<std::string, std::size_t, std::less<>> genres;
  item_table table;
  const auto bits_of = [&](std::string_view list) {
    std::uint64_t bits = 0;
    while (!list.empty()) {
      const std::string_view name = list.substr(0, list.find('|'));
      list.remove_prefix(std::min(list.size(), name.size() + 1));
      const auto known = genres.try_emplace(std::string(name), genres.size()).first;
      if (known->second == most_genres) lines.fail(fmt::format("at most {} genres", most_genres), name);
      bits |= std::uint64_t{1} << known->second;
    }
    return bits;
  };
  while (const auto line = lines.next()) {
    const auto first = line->find(separator);
    const auto last = line->rfind(separator); // a title may contain some, too
    if (first == std::string_view::npos || last < first + separator.size())
      lines.fail("item::title (year)::genre|genre", *line);
    const std::string_view id = line->substr(0, first);
    const std::string_view title = line->substr(first + separator.size(), last - first - separator.size());
    const item described{year_of(title), bits_of(line->substr(last + separator.size()))};
    if (!table.items.try_emplace(lines.number(id, "an item's number"), described).second)
      lines.fail("an item that was not described before", id);
  }
  table.genres = genres.size();
  return table;
}

/// Shuffles by the algorithm of Fisher and Yates. std::shuffle gives other orders with other libraries.
void shuffle(std::vector<rating>& ratings, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = ratings.size(); i > 1; --i) std::swap(ratings[i - 1], ratings[random() % i]);
}

dataset to_dataset(const std::vector<rating>& ratings, const item_table& table, std::size_t users,
                   std::size_t items) {
  categorical_features f;
  f.width = table.genres;
  numbering years;
  years.of(0);
  std::vector<float> targets;
  for (const rating& r : ratings) {
    const auto found = table.items.find(r.item_id);
    const item known = found == table.items.end() ? item{} : found->second;
    const std::uint64_t hour = r.time / seconds_in_hour;
    f.categories.insert(f.categories.end(),
                        {r.user, r.item, years.of(known.year),
                         static_cast<std::int32_t>((hour / hours_in_day + first_weekday) % 7),
                         static_cast<std::int32_t>(hour % hours_in_day)});
    for (std::size_t g = 0; g < f.width; ++g) f.values.push_back(static_cast<float>(known.genres >> g & 1));
    targets.push_back(r.value);
  }
  f.counts = {users, items, years.size(), 7, hours_in_day};
  return {std::move(f), std::move(targets)};
}

} // namespace

dataset read_ratings(const std::filesystem::path& ratings, const std::filesystem::path& items,
                     const rating_options& options) {
  field_reader lines(ratings);
  numbering users;
  numbering rated;
  std::vector<rating> all;
  while (const auto line = lines.next()) {
    all.push_back(parse_rating(lines, *line, users, rated));
    options.limit.require(ratings, sizeof(rating) * all.size());
  }
  if (all.empty()) throw_malformed(ratings, "expected user::item::rating::time lines, found an empty file");
  if (options.order == rating_order::by_time)
    std::ranges::stable_sort(all, {}, &rating::time);
  else
    shuffle(all, options.seed);
  const item_table table = items.empty() ? item_table{} : read_items(items);
  constexpr std::size_t categories_and_target = 6;
  options.limit.require(ratings, sizeof(float) * (categories_and_target + table.genres) * all.size());
  return to_dataset(all, table, users.size(), rated.size());
}

} // namespace mailgrad
