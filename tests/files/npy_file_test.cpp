#include <mailgrad/tests/files/array_bytes.hpp>

#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::npy;

class NpyFile : public ::testing::Test {
protected:
  std::string npy_complaint(const std::string& bytes) const {
    return complaint([&] { npy_file{folder_.write("x.npy", bytes)}; });
  }

  const scratch_folder folder_;
};

TEST_F(NpyFile, IsReadPieceByPiece) {
  npy_file file(folder_.write("x.npy", npy("|u1", "(2, 3)", "abcdef")));
  EXPECT_EQ(file.name(), "x");
  EXPECT_EQ(file.header().dims, (shape{2, 3}));
  std::vector<float> some(4);
  file.read(some);
  EXPECT_THAT(some, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_EQ(file.left(), 2U);
  std::vector<std::int32_t> more(3);
  EXPECT_THROW(file.read(more), std::invalid_argument);
  more.resize(2);
  file.read(more);
  EXPECT_THAT(more, ElementsAre('e', 'f'));
  EXPECT_EQ(file.left(), 0U);
}

/// Columns come one after another in the file, and rows are asked for, a few numbers at a time.
TEST_F(NpyFile, GivesRowsOfAnArrayInFortranOrder) {
  const std::string text = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }\n";
  const std::string head = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text;
  for (const auto& path : {folder_.write("x.npy", head + "agciekbhdjfl"),
                           folder_.write("y.npy", gzipped(head + "agciekbhdjfl"))}) {
    npy_file file(path);
    std::string read;
    for (const std::size_t count : {1UL, 4UL, 7UL}) {
      std::vector<std::uint8_t> some(count);
      file.read(some);
      read.append(some.begin(), some.end());
    }
    EXPECT_EQ(read, "abcdefghijkl");
  }
  npy_file longer(folder_.write("x.npy.gz", gzipped(head + "agciekbhdjfl and more")));
  std::vector<std::uint8_t> all(12);
  EXPECT_THAT(complaint([&] { longer.read(all); }), HasSubstr("after the last number, found further bytes"));
}

TEST_F(NpyFile, SwapsTheBytesOfBigEndianNumbers) {
  npy_file file(
      folder_.write("x.npy", npy(">i4", "(3,)", std::string("\0\0\1\2\xff\xff\xff\xfe\0\1\0\0", 12))));
  std::vector<std::int64_t> numbers(3);
  file.read(numbers);
  EXPECT_THAT(numbers, ElementsAre(258, -2, 65536));
}

/// Of a number as large as 2^63, 64 bits with a sign hold no more than the one before.
TEST_F(NpyFile, RefusesWholeNumbersBeyondTheirBits) {
  const double beyond = 9223372036854775808.0;
  for (const double number : {beyond, -beyond * 2, 0.5}) {
    npy_file file(folder_.write("x.npy", npy("<f8", "(1,)", {reinterpret_cast<const char*>(&number), 8})));
    std::vector<std::int64_t> one(1);
    EXPECT_THAT(complaint([&] { file.read(one); }), HasSubstr("number 0 is no whole number"));
  }
}

/// So many that they are converted in several pieces.
TEST_F(NpyFile, CountsNumbersFromItsFirstOn) {
  std::vector<double> numbers(20'000, 0.5);
  numbers[15'000] = 1e300;
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
  npy_file file(folder_.write("x.npy", npy("<f8", "(20000,)", bytes)));
  std::vector<float> first(9'999), second(10'001);
  file.read(first);
  EXPECT_EQ(complaint([&] { file.read(second); }), "x.npy: array 'x': number 15000 is too large for float32");
}

TEST_F(NpyFile, MayBePackedWithGzip) {
  const auto path = folder_.write("x.npy.gz", gzipped(npy("|u1", "(3,)", "abc")));
  EXPECT_TRUE(npy_file::is_npy(path));
  npy_file file(path);
  EXPECT_EQ(file.name(), "x");
  std::vector<std::uint8_t> numbers(3);
  file.read(numbers);
  EXPECT_THAT(numbers, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(
      complaint([&] { npy_file{folder_.write("x.npy.gz", gzipped(npy("|u1", "(3000000000,)", "abc")))}; }),
      HasSubstr("needs 3000000000 numbers of 1 bytes, found at most"))
      << "no file of this size unpacks to so much";
  npy_file longer(folder_.write("x.npy.gz", gzipped(npy("|u1", "(2,)", "abc"))));
  numbers.resize(2);
  EXPECT_THAT(complaint([&] { longer.read(numbers); }),
              HasSubstr("after the last number, found further bytes"));
  npy_file shorter(folder_.write("x.npy.gz", gzipped(npy("|u1", "(4,)", "abc"))));
  numbers.resize(4);
  EXPECT_THAT(complaint([&] { shorter.read(numbers); }), HasSubstr("expected 1 bytes more, found the end"));
}

TEST_F(NpyFile, IsKnownByItsFirstBytes) {
  EXPECT_TRUE(npy_file::is_npy(folder_.write("x", npy("|u1", "(1,)", "a"))));
  EXPECT_FALSE(npy_file::is_npy(folder_.write("x.npy", "1,2,3")));
  EXPECT_FALSE(npy_file::is_npy(folder_.write("x.npy", "")));
  EXPECT_FALSE(npy_file::is_npy(folder_.path()));
  EXPECT_FALSE(npy_file::is_npy(folder_.path() / "none"));
}

TEST_F(NpyFile, IsRefusedWhereItLies) {
  EXPECT_EQ(npy_complaint(npy("<f4", "(3,)", "12345678")),
            "x.npy: array 'x': its shape of 3 needs 3 numbers of 4 bytes, found 8 bytes");
  EXPECT_THAT(npy_complaint(npy("<f4", "(1000000000000,)", "12345678")), HasSubstr("found 8 bytes"));
  EXPECT_THAT(npy_complaint(npy("<f4", "(1,)", "12345")), HasSubstr("found 5 bytes"));
  EXPECT_THAT(npy_complaint(npy("<f4", "(2,)", "123456789")), HasSubstr("found 9 bytes"));
  EXPECT_THAT(npy_complaint(npy("<f4", "(0, 5)", "1234")), HasSubstr("needs 0 numbers of 4 bytes, found 4"));
  EXPECT_THAT(npy_complaint("short"), HasSubstr("expected an array of numpy, found 5 bytes"));
  EXPECT_THAT(npy_complaint(""), HasSubstr("expected an array of numpy, found 0 bytes"));
  const std::string long_header("\x93NUMPY\1\0\xff\xff{'descr': ", 20);
  EXPECT_THAT(npy_complaint(long_header), HasSubstr("its header is longer than the array"));
  EXPECT_EQ(npy_complaint(npy("|O", "(1,)", "pickled")),
            "x.npy: array 'x': expected numbers, found Python objects, which would run code of the file");
  EXPECT_THAT(complaint([&] { npy_file{folder_.path() / "none.npy"}; }), HasSubstr("No such file"));
}

/// Every damage ends in numbers or in one line, plain and packed. A plain file has no checksum, so a number
/// that changed there goes unnoticed; what changed in the header or in the length does not.
TEST_F(NpyFile, EndsInNumbersOrInOneLine) {
  std::string numbers;
  for (char c = 0; c < 80; ++c) numbers += c;
  const std::string plain = npy("<f4", "(4, 5)", numbers);
  const std::string packed = gzipped(plain);
  std::mt19937 random(4);
  for (const bool is_packed : {false, true}) {
    const std::string& whole = is_packed ? packed : plain;
    int read = 0;
    for (int i = 0; i < 600; ++i) {
      std::string bytes = whole;
      const std::size_t at = random() % bytes.size();
      if (random() % 4 == 0)
        bytes.resize(at);
      else
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      try {
        npy_file file(folder_.write("x.npy", bytes));
        ASSERT_LE(file.header().dims.size(), std::size_t{1} << 20) << "before memory is taken";
        std::vector<float> to(file.header().dims.size());
        file.read(to);
        ++read;
      } catch (const file_error& e) {
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
    }
    EXPECT_LT(read, is_packed ? 60 : 400);
  }
}

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
