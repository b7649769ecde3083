#include <mailgrad/tests/files/array_bytes.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::expect_refused;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::string with_length(const std::string& header, const std::string& numbers = "") {
  std::string bytes;
  append_number<8>(bytes, header.size());
  return bytes + header + numbers;
}

class Safetensors : public ::testing::Test {
protected:
  std::filesystem::path write(const std::string& bytes) {
    return folder_.write("weights.safetensors", bytes);
  }
  std::vector<float> numbers_of(safetensors_file& file, const std::string& name) {
    const stored_array* const found = file.find(name);
    std::vector<float> numbers(found->dims.size());
    file.read(*found, numbers);
    return numbers;
  }

  const scratch_folder folder_;
};

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  const std::filesystem::path path = folder_.path() / "w.safetensors";
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{-0.0F}, none;
  const float odd = std::numeric_limits<float>::denorm_min();
  const std::vector<float> c{odd, std::numeric_limits<float>::quiet_NaN()};
  write_safetensors(path,
                    std::vector<array_to_store>{{"dense1/weights", {2, 3}, a},
                                                {"scalar", {}, b},
                                                {"nothing", {0, 4}, none},
                                                {"odd \"name\"\n", {2}, c}},
                    {{"model", "mlp"}, {"note", "ünder"}});
  safetensors_file file(path);
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("model", "mlp"), Pair("note", "ünder")));
  ASSERT_THAT(file.arrays(), SizeIs(4));
  EXPECT_EQ(file.arrays()[0].name, "dense1/weights");
  EXPECT_EQ(file.arrays()[0].dims, (shape{2, 3}));
  EXPECT_EQ(numbers_of(file, "dense1/weights"), a);
  EXPECT_TRUE(std::signbit(numbers_of(file, "scalar")[0]));
  EXPECT_THAT(numbers_of(file, "nothing"), IsEmpty());
  EXPECT_EQ(numbers_of(file, "odd \"name\"\n")[0], odd);
  EXPECT_TRUE(std::isnan(numbers_of(file, "odd \"name\"\n")[1]));
  EXPECT_EQ(file.find("other"), nullptr);
}

/// Some readers map the file into memory.
TEST_F(Safetensors, AlignsItsNumbers) {
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    const std::filesystem::path path = folder_.path() / "w.safetensors";
    const std::vector<float> one{1};
    write_safetensors(path, std::vector<array_to_store>{{name, {1}, one}}, {});
    EXPECT_EQ((std::filesystem::file_size(path) - sizeof(float)) % 8, 0U);
  }
}

/// As the library of Python writes them, with metadata behind the arrays and blanks at the end.
TEST_F(Safetensors, ReadsEachKindOfFloat) {
  const std::string header =
      R"({"h":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[14,18]},"__metadata__":{"format":"pt"}}  )";
  safetensors_file file(
      write(with_length(header, bytes_of({0.1}) + bytes_of<std::uint16_t>({0x3c00, 0xc100, 0x0001}) +
                                    bytes_of<std::uint16_t>({0x3f80, 0xc040}))));
  EXPECT_EQ(file.arrays()[0].name, "d") << "in the order of the bytes";
  EXPECT_THAT(numbers_of(file, "d"), ElementsAre(0.1F));
  EXPECT_THAT(numbers_of(file, "h"), ElementsAre(1, -2.5F, 0x1p-24F));
  EXPECT_THAT(numbers_of(file, "b"), ElementsAre(1, -3));
}

/// Every number of 16 bits, against the definition of the format.
TEST(SmallFloats, AreTheNumbersOfTheirBits) {
  for (std::uint32_t bits = 0; bits < 1U << 16; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = (bits & 1023) / 1024.0;
    const double sign = bits >> 15 ? -1 : 1;
    const auto found = static_cast<double>(float_of_half(static_cast<std::uint16_t>(bits)));
    if (exponent == 31) {
      EXPECT_EQ(fraction == 0 ? std::isinf(found) : std::isnan(found), true) << bits;
    } else {
      ASSERT_EQ(found,
                sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15)))
          << bits;
    }
    const float wide = float_of_bfloat16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16) << bits;
  }
}

TEST_F(Safetensors, RefusesNumbersThatAreNoWeights) {
  const std::string header = R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("big":{"dtype":"F64","shape":[2],"data_offsets":[8,24]}})";
  safetensors_file file(write(with_length(header, bytes_of<std::int64_t>({7}) + bytes_of({1.0, 1e300}))));
  std::vector<float> one(1), two(2);
  expect_refused({
      {"whole numbers", [&] { file.read(*file.find("n"), one); }, "array 'n' holds numbers of type 'I64'"},
      {"a large number", [&] { file.read(*file.find("big"), two); }, "number 1 of array 'big' is too large"},
      {"another length", [&] { file.read(*file.find("big"), one); },
       "has 2 numbers, and there is room for 1"},
  });
}

TEST_F(Safetensors, RefusesAHeaderThatLies) {
  const auto reading = [&](const std::string& bytes) {
    return [this, bytes] { safetensors_file(write(bytes)); };
  };
  const auto array = [](const std::string& fields) {
    return with_length("{\"a\":{" + fields + "}}", std::string(8, 0));
  };
  const std::string f32 = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_NO_THROW(reading(array(f32))());
  expect_refused({
      {"nothing", reading(""), "expected a safetensors file, found 0 bytes"},
      {"seven bytes", reading("1234567"), "found 7 bytes"},
      {"a header of all memory", reading(std::string(8, '\xff')),
       "offset 0: the header is said to have 18446744073709551615 bytes, and 0 follow"},
      {"a header beyond the format",
       [this] {
         const auto file = write(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));
         std::filesystem::resize_file(file, 100'000'009); // takes no place on the disk
         const safetensors_file read(file);
       },
       "the header is said to have 100000001 bytes, and the format has at most 100000000"},
      {"one byte less", reading(array(f32).substr(0, 30)), "bytes, and 22 follow"},
      {"no JSON", reading(with_length("hello!")), "not valid JSON"},
      {"bytes behind a NUL", reading(with_length(std::string("{}\0 not read by anybody", 24))),
       "offset 10: the header is not valid JSON"},
      {"a list", reading(with_length("[]")), "expected a header with names, found a list"},
      {"no end", reading(with_length("{\"a\":")), "not valid JSON"},
      {"no object", reading(with_length("{\"a\":1}")), "'a': found a number where the format has none"},
      {"nested", reading(with_length(R"({"a":{"dtype":{}}})")), "'a', 'dtype': found an object"},
      {"deeply nested", reading(with_length("{\"a\":" + std::string(100'000, '['))), "'a': found a list"},
      {"twice", reading(with_length("{\"a\":{" + f32 + "},\"a\":{" + f32 + "}}", std::string(8, 0))),
       "array 'a' comes twice"},
      {"two shapes", reading(array(f32 + R"(,"shape":[2])")), "field 'shape' of array 'a' comes twice"},
      {"a field of its own", reading(array(f32 + R"(,"scale":2)")), "a field 'scale'"},
      {"no type", reading(array(R"("shape":[2],"data_offsets":[0,8])")), "lacks its dtype"},
      {"one offset", reading(array(R"("dtype":"F32","shape":[2],"data_offsets":[0])")),
       "its two data_offsets"},
      {"three offsets", reading(array(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])")),
       "more than two offsets"},
      {"an unknown type", reading(array(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])")),
       "unknown type 'F31'"},
      {"another length", reading(array(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")),
       "cannot take the bytes from 0 to 8"},
      {"half a number", reading(array(R"("dtype":"F64","shape":[0],"data_offsets":[0,7])")),
       "cannot take the bytes"},
      {"backwards", reading(array(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])")),
       "cannot take the bytes"},
      {"a length that wraps",
       reading(array(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])")),
       "more numbers than memory"},
      {"axes whose product wraps",
       reading(array(R"("dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8])")),
       "more numbers than memory"},
      {"nine axes", reading(array(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])")),
       "more than 8 axes"},
      {"a negative axis", reading(array(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])")),
       "a negative number"},
      {"half an axis", reading(array(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])")),
       "a number with a fraction"},
      {"a gap", reading(array(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])")),
       "begins at byte 4 of the numbers, where byte 0 was expected"},
      {"too few", reading(array(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])")),
       "the arrays take 4 bytes, and the file has 8"},
      {"shared bytes", reading(with_length("{\"a\":{" + f32 + "},\"b\":{" + f32 + "}}", std::string(8, 0))),
       "'b' begins at byte 0 of the numbers, where byte 8 was expected"},
      {"metadata of numbers", reading(with_length(R"({"__metadata__":{"a":1}})")),
       "'__metadata__', 'a': found a number"},
      {"a text twice", reading(with_length(R"({"__metadata__":{"a":"1","a":"2"}})")), "text 'a' comes twice"},
      {"a folder", [&] { safetensors_file(folder_.path()); }, "cannot be read"},
      {"no file", [&] { safetensors_file(folder_.path() / "none"); }, "cannot be read: No such file"},
  });
}

/// A file that was cut is refused wherever it was cut; one that was changed is refused or read, and no more.
TEST_F(Safetensors, SurvivesEveryDamage) {
  const std::filesystem::path path = folder_.path() / "w.safetensors";
  const std::vector<float> numbers{1, 2, 3};
  write_safetensors(path,
                    std::vector<array_to_store>{{"a", {3}, numbers}, {"b", {1}, std::span(numbers).first(1)}},
                    {{"k", "v"}});
  std::ostringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = whole.str();
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_THROW(safetensors_file(write(bytes.substr(0, cut))), file_error) << cut;
  EXPECT_THROW(safetensors_file(write(bytes + '\0')), file_error);
  std::mt19937 random(5);
  std::size_t refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    for (int n = 0; n < 1 + i % 3; ++n)
      damaged[random() % (damaged.size() - 16)] = static_cast<char>(random());
    try {
      safetensors_file file(write(damaged));
      for (const stored_array& a : file.arrays()) numbers_of(file, a.name);
    } catch (const file_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000U);
}

TEST_F(Safetensors, WritesNothingThatCannotBeRead) {
  const std::filesystem::path path = write("before");
  const std::vector<float> two{1, 2};
  const auto writing = [&](const std::vector<array_to_store>& arrays) {
    return [&path, arrays] { write_safetensors(path, arrays, {}); };
  };
  expect_refused({
      {"a name twice", writing({{"a", {2}, two}, {"a", {2}, two}}), "two arrays are called 'a'"},
      {"the name of the texts", writing({{"__metadata__", {2}, two}}), "__metadata__"},
      {"another shape", writing({{"a", {3}, two}}), "array 'a' has 2 numbers for a shape of 3"},
      {"no folder", [&] { write_safetensors("/there/is/none/w", {}, {}); },
       "cannot be written: No such file"},
      {"a full disk",
       [&] {
         write_safetensors("/dev/full", std::vector<array_to_store>{{"a", {2}, two}}, {});
       },
       "cannot be written: No space left"},
  });
  EXPECT_EQ(std::filesystem::file_size(path), 6U) << "what was there is there";
}

} // namespace
} // namespace mailgrad
