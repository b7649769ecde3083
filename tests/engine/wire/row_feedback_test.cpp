#include <mailgrad/engine/wire/error_feedback.hpp>

#include <mailgrad/tests/engine/wire/wire_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace mailgrad {
namespace {

using testing::drawn_whole_numbers;
using testing::lossy_formats;

using floats = std::vector<float>;
using rows = std::vector<std::int32_t>;

constexpr table_extent table{10, 3};

void add(std::vector<double>& to, const rows& listed, std::span<const float> values) {
  for (std::size_t i = 0; i < listed.size(); ++i)
    for (std::size_t c = 0; c < table.width; ++c)
      to[static_cast<std::size_t>(listed[i]) * table.width + c] +=
          static_cast<double>(values[table.width * i + c]);
}

TEST(RowFeedback, LosesNothingWhateverIsDiscarded) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : lossy_formats) {
    const wire_format f = parse_wire_format(format);
    row_feedback feedback(f, table);
    std::vector<double> made(30), applied(30);
    std::vector<std::pair<step_number, wire_message>> in_flight;
    for (step_number step{1}; step.value <= 300; ++step) {
      rows listed(rng() % 7);
      for (std::int32_t& row : listed) row = static_cast<std::int32_t>(rng() % table.rows);
      const floats values = drawn_whole_numbers(3 * listed.size(), rng);
      add(made, listed, values);
      in_flight.emplace_back(step, feedback.send(step, {0, 3, listed, values}));
      if (in_flight.size() < 3 && step.value < 300) continue;
      for (const auto& [sent, message] : in_flight) {
        if (rng() % 3 == 0) {
          feedback.give_back(sent);
          continue;
        }
        decoded_rows read;
        decode_rows(f, *message, table, read);
        add(applied, read.rows, read.values);
        feedback.applied(sent);
      }
      in_flight.clear();
    }
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], applied[i] + static_cast<double>(feedback.residual()[i]), 5e-3)
          << format << ", " << i;
  }
}

TEST(RowFeedback, KeepsTheRestOfARowUntilItComesAgain) {
  row_feedback feedback(parse_wire_format("top-k:0.3"), table); // one number of a row
  feedback.send({1}, {0, 3, rows{4}, floats{5, 2, 1}});
  feedback.send({2}, {0, 3, rows{6}, floats{1, 1, 1}});
  const wire_message third = feedback.send({3}, {0, 3, rows{4}, floats{0, 2, 1}});
  decoded_rows read;
  decode_rows(parse_wire_format("top-k:0.3"), *third, table, read);
  EXPECT_EQ(read.rows, rows{4});
  EXPECT_EQ(read.values, (floats{0, 4, 0}));
}

TEST(RowFeedback, SendsNothingThatIsNotFinite) {
  row_feedback feedback(parse_wire_format("int8"), table);
  EXPECT_FALSE(feedback.send({1}, {0, 3, rows{4}, floats{5, std::numeric_limits<float>::infinity(), 1}}));
  EXPECT_EQ(feedback.in_flight(), 0U);
}

TEST(RowFeedback, RefusesWhatItCannotMean) {
  row_feedback feedback(parse_wire_format("int8"), table);
  feedback.send({1}, {0, 3, rows{4}, floats{5, 2, 1}});
  testing::expect_refused({
      {"a row behind the table",
       [&] {
         feedback.send({2}, {0, 3, rows{10}, floats(3)});
       },
       "row 10 of a table of 10"},
      {"too few values",
       [&] {
         feedback.send({2}, {0, 3, rows{1, 2}, floats(3)});
       },
       "2 rows of 3 with 3 values"},
      {"a step in flight",
       [&] {
         feedback.send({1}, {0, 3, rows{1}, floats(3)});
       },
       "step 1 is in flight already"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
}

} // namespace
} // namespace mailgrad
