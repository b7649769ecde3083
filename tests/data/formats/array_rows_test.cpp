#include <mailgrad/data/formats/number_rows.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cmath>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ArrayRows : public testing::Test {
protected:
  std::filesystem::path array(const std::string& extents, const std::vector<float>& numbers) const {
    const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + extents + ", }\n";
    const std::string before = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0';
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                                 numbers.size() * sizeof(float));
    return folder.write("a.npy", before + text + std::string(bytes));
  }

  const scratch_folder folder;
};

TEST_F(ArrayRows, GiveASampleAtATime) {
  array_rows rows(array("(2, 3)", {1, 2, 3, 4, 5, 6}), {3});
  std::vector<float> all;
  EXPECT_TRUE(rows.next(all));
  EXPECT_THAT(all, ElementsAre(1, 2, 3));
  EXPECT_TRUE(rows.next(all));
  EXPECT_THAT(all, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(rows.next(all));
  EXPECT_EQ(all.size(), 6U);
}

TEST_F(ArrayRows, HaveTheShapeThatTheModelReads) {
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  EXPECT_NO_THROW(array_rows(array("(1, 3, 2)", six), {3, 2, 1})) << "a picture without its channel";
  EXPECT_NO_THROW(array_rows(array("(1, 6)", six), {3, 2, 1})) << "a picture as one row";
  EXPECT_NO_THROW(array_rows(array("(6,)", six), {1})) << "samples of one number";
  for (const char* extents : {"(1, 2, 3)", "(1, 1, 2, 3)", "(6,)", "(2, 3)"})
    EXPECT_THAT(
        complaint([&] {
          array_rows(array(extents, six), {3, 2, 1});
        }),
        HasSubstr("a.npy: array 'a': expected samples of 3x2x1, as the model reads them, along the first"))
        << extents;
  EXPECT_THAT(complaint([&] { array_rows(array("()", {1}), {1}); }), HasSubstr("expected samples of 1"));
}

TEST_F(ArrayRows, HaveFiniteNumbers) {
  array_rows rows(array("(2, 2)", {1, 2, 3, std::nanf("")}), {2});
  std::vector<float> all;
  EXPECT_TRUE(rows.next(all));
  EXPECT_EQ(complaint([&] { rows.next(all); }),
            "a.npy: array 'a': number 1 of sample 1 is nan; numbers must be finite");
}

} // namespace
} // namespace mailgrad
