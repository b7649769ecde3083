#include <mailgrad/data/formats/label_map.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

namespace mailgrad {
namespace {

TEST(ByteLabels, CountTheirClasses) {
  EXPECT_EQ(count_classes({{2, 0, 1, 1}, "x"}), 3U);
  EXPECT_EQ(count_classes({{1, 2}, "x"}), 3U); // some sets count from 1
  EXPECT_EQ(count_classes({{0}, "x"}), 1U);
  EXPECT_EQ(count_classes({{255, 254}, "x"}), 256U);
}

TEST(ByteLabels, TakeALabelBeyondAGapForDamage) {
  EXPECT_EQ(complaint([] {
              count_classes({{0, 1, 200, 2}, "y", 8, 1});
            }),
            "y: offset 10: expected a label from 0 to 2, found 200");
}

TEST(ByteLabels, SayWhereALabelIsOutOfRange) {
  EXPECT_EQ(complaint([] {
              require_below(3, {{0, 1, 2, 3}, "y", 0, 3073});
            }),
            "y: offset 9219: expected a label from 0 to 2, found 3");
  EXPECT_NO_THROW(require_below(200, {{0, 199}, "y"}));
}

TEST(ByteLabels, WidenToNumbers) { EXPECT_EQ(widened({{0, 255}, "x"}), (std::vector<std::int32_t>{0, 255})); }

} // namespace
} // namespace mailgrad
