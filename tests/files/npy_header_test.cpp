#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/npy_file.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::HasSubstr;

npy_header parsed(std::string_view text) { return parse_npy_text("a.npz", "array 'x'", text); }

std::string text_complaint(std::string_view text) {
  return complaint([&] { parsed(text); });
}

TEST(NpyHeader, ReadsWhatNumpyWrites) {
  const npy_header h = parsed("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }            \n");
  EXPECT_EQ(h.numbers, npy_number::f64);
  EXPECT_EQ(h.dims, (shape{3, 4}));
  EXPECT_EQ(parsed("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n").dims, shape{5});
  EXPECT_EQ(parsed("{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n").dims, shape());
  EXPECT_EQ(parsed("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }").numbers, npy_number::boolean);
  EXPECT_EQ(parsed("{'shape':(0,2),'descr':'<i8','fortran_order':False}").dims, (shape{0, 2}));
  EXPECT_EQ(parsed("{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 4L), }").dims, (shape{3, 4}))
      << "by Python 2";
}

TEST(NpyHeader, TellsInWhichOrderNumbersAndBytesStand) {
  const npy_header plain = parsed("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
  EXPECT_FALSE(plain.is_big_endian || plain.is_fortran);
  const npy_header other = parsed("{'descr': '>f4', 'fortran_order': True, 'shape': (3, 2), }");
  EXPECT_EQ(other.numbers, npy_number::f32);
  EXPECT_TRUE(other.is_big_endian && other.is_fortran);
  EXPECT_FALSE(parsed("{'descr': '|b1', 'fortran_order': True, 'shape': (2,), }").is_fortran)
      << "of one axis both orders are one";
}

TEST(NpyHeader, ReadsWhatItWrites) {
  for (const shape& dims : {shape(), shape{7}, shape{2, 3, 4}, shape{1, 1, 1, 1, 1, 1, 1, 1}})
    for (const npy_number n : {npy_number::f32, npy_number::u8}) {
      const std::string bytes = npy_header_for(n, dims);
      EXPECT_EQ(bytes.size() % 64, 0U);
      const npy_text_place place = parse_npy_preamble("a.npz", "array 'x'", bytes);
      EXPECT_EQ(place.begin + place.length, bytes.size());
      const npy_header h = parsed(std::string_view(bytes).substr(place.begin));
      EXPECT_EQ(h.dims, dims);
      EXPECT_EQ(h.numbers, n);
    }
  EXPECT_THAT(npy_header_for(npy_number::f32, {5}),
              HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }"));
}

TEST(NpyHeader, RefusesPythonObjects) {
  EXPECT_EQ(text_complaint("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }"),
            "a.npz: array 'x': expected numbers, found Python objects, which would run code of the file");
  EXPECT_THAT(
      text_complaint("{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (3,), }"),
      HasSubstr("expected plain numbers, found records"));
}

TEST(NpyHeader, RefusesNumbersItCannotRead) {
  const auto of_type = [](const std::string& type) {
    return text_complaint("{'descr': '" + type + "', 'fortran_order': False, 'shape': (3,), }");
  };
  for (const char* type : {">c8", "=f4", "<c8", "<U5", "|S3", "<M8[s]", "", "f4", "<f16", "<"})
    EXPECT_THAT(of_type(type), HasSubstr("expected numbers or truth values, found type '")) << type;
}

TEST(NpyHeader, RefusesTextsThatNumpyDoesNotWrite) {
  for (const char* text :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 7", "{'descr': '<f4, 'shape",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os').system('false')}"})
    EXPECT_THAT(text_complaint(text), testing::StartsWith("a.npz: array 'x': ")) << text;
}

TEST(NpyHeader, RefusesPreamblesOfAnotherFormat) {
  const auto preamble = [](const std::string& bytes) {
    return complaint([&] { parse_npy_preamble("a.npz", "array 'x'", bytes); });
  };
  EXPECT_THAT(preamble("PK\3\4 something else"), HasSubstr("expected an array of numpy, found 'PK"));
  EXPECT_THAT(preamble("\x93NUMPY"), HasSubstr("expected an array of numpy"));
  EXPECT_THAT(preamble(std::string("\x93NUMPY\x04\0\0\0\0\0", 12)), HasSubstr("found 4"));
  EXPECT_THAT(preamble(std::string("\x93NUMPY\x02\0\0\0\0\x7f", 12)),
              HasSubstr("expected a header of at most 65536 bytes"));
}

} // namespace
} // namespace mailgrad
