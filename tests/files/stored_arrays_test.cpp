#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/tensor/small_floats.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <zip.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>

// Files of arrays: numpy's *.npy and *.npz, and safetensors.

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::expect_refused;
using floats = std::vector<float>;
using arrays_to_store = std::vector<array_to_store>;

template <class T>
std::string bytes_of(std::initializer_list<T> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T)};
}

/// An array as numpy.save writes it.
std::string npy(const std::string& type, const std::string& extents, const std::string& numbers,
                const std::string& is_fortran = "False") {
  const std::string text =
      "{'descr': '" + type + "', 'fortran_order': " + is_fortran + ", 'shape': " + extents + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + numbers;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// How many of 600 damaged copies of `whole` are read all the same; the others are refused in one line.
template <class Read>
int read_though_damaged(const std::string& whole, std::mt19937& random, Read read) {
  int taken = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bytes = whole;
    const std::size_t at = random() % bytes.size();
    if (random() % 4 == 0)
      bytes.resize(at);
    else
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    try {
      read(bytes);
      ++taken;
    } catch (const file_error& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
  return taken;
}

std::string eighty_bytes() {
  std::string bytes;
  for (char c = 0; c < 80; ++c) bytes += c;
  return bytes;
}

class NpyFile : public ::testing::Test {
protected:
  npy_file plain(const std::string& bytes) const { return npy_file(folder_.write("x.npy", bytes)); }
  npy_file packed(const std::string& bytes) const {
    return npy_file(folder_.write("x.npy.gz", gzipped(bytes)));
  }

  const scratch_folder folder_;
};

TEST_F(NpyFile, IsReadPieceByPiece) {
  npy_file file = plain(npy("|u1", "(2, 3)", "abcdef"));
  EXPECT_EQ(file.name(), "x");
  EXPECT_EQ(file.header().dims, (shape{2, 3}));
  floats some(4);
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
  const std::string columns = npy("|u1", "(2, 3, 2)", "agciekbhdjfl", "True");
  for (const bool is_packed : {false, true}) {
    npy_file file = is_packed ? packed(columns) : plain(columns);
    std::string read;
    for (const std::size_t count : {1UL, 4UL, 7UL}) {
      std::vector<std::uint8_t> some(count);
      file.read(some);
      read.append(some.begin(), some.end());
    }
    EXPECT_EQ(read, "abcdefghijkl");
  }
  npy_file longer = packed(columns + " and more");
  std::vector<std::uint8_t> all(12);
  EXPECT_THAT(complaint([&] { longer.read(all); }), HasSubstr("after the last number, found further bytes"));
}

/// Of a number as large as 2^63, 64 bits with a sign hold no more than the one before.
TEST_F(NpyFile, RefusesWholeNumbersBeyondTheirBits) {
  const double beyond = 9223372036854775808.0;
  for (const double number : {beyond, -beyond * 2, 0.5}) {
    npy_file file = plain(npy("<f8", "(1,)", bytes_of({number})));
    std::vector<std::int64_t> one(1);
    EXPECT_THAT(complaint([&] { file.read(one); }), HasSubstr("number 0 is no whole number"));
  }
}

/// So many that they are converted in several pieces.
TEST_F(NpyFile, CountsNumbersFromItsFirstOn) {
  std::vector<double> numbers(20'000, 0.5);
  numbers[15'000] = 1e300;
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
  npy_file file = plain(npy("<f8", "(20000,)", bytes));
  floats first(9'999), second(10'001);
  file.read(first);
  EXPECT_EQ(complaint([&] { file.read(second); }), "x.npy: array 'x': number 15000 is too large for float32");
}

TEST_F(NpyFile, MayBePackedWithGzip) {
  npy_file file = packed(npy("|u1", "(3,)", "abc"));
  EXPECT_TRUE(npy_file::is_npy(folder_.path() / "x.npy.gz"));
  EXPECT_EQ(file.name(), "x");
  std::vector<std::uint8_t> numbers(3);
  file.read(numbers);
  EXPECT_THAT(numbers, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(complaint([&] { packed(npy("|u1", "(3000000000,)", "abc")); }),
              HasSubstr("needs 3000000000 numbers of 1 bytes, found at most"))
      << "no file of this size unpacks to so much";
  npy_file longer = packed(npy("|u1", "(2,)", "abc"));
  numbers.resize(2);
  EXPECT_THAT(complaint([&] { longer.read(numbers); }),
              HasSubstr("after the last number, found further bytes"));
  npy_file shorter = packed(npy("|u1", "(4,)", "abc"));
  numbers.resize(4);
  EXPECT_THAT(complaint([&] { shorter.read(numbers); }), HasSubstr("expected 1 bytes more, found the end"));
}

TEST_F(NpyFile, IsKnownByItsFirstBytes) {
  EXPECT_TRUE(npy_file::is_npy(folder_.write("x", npy("|u1", "(1,)", "a"))));
  for (const char* bytes : {"1,2,3", ""}) EXPECT_FALSE(npy_file::is_npy(folder_.write("x.npy", bytes)));
  EXPECT_FALSE(npy_file::is_npy(folder_.path()));
  EXPECT_FALSE(npy_file::is_npy(folder_.path() / "none"));
}

/// Arrays that are refused, alone in a file or in an archive.
const std::pair<std::string, const char*> arrays_that_lie[] = {
    {npy("<f4", "(3,)", "12345678"), "its shape of 3 needs 3 numbers of 4 bytes, found 8 bytes"},
    {npy("<f4", "(1000000000000,)", "12345678"), "found 8 bytes"},
    {npy("<f4", "(1,)", "12345"), "found 5 bytes"},
    {npy("<f4", "(2,)", "123456789"), "found 9 bytes"},
    {npy("<f4", "(0, 5)", "1234"), "needs 0 numbers of 4 bytes, found 4 bytes"},
    {"short", "expected an array of numpy, found 5 bytes"},
    {"", "expected an array of numpy, found 0 bytes"},
    {std::string("\x93NUMPY\1\0\xff\xff{'descr': ", 20), "its header is longer than the array"},
    {npy("|O", "(1,)", "pickled"),
     "expected numbers, found Python objects, which would run code of the file"}};

TEST_F(NpyFile, IsRefusedWhereItLies) {
  for (const auto& [bytes, says] : arrays_that_lie)
    EXPECT_THAT(complaint([&, &bytes = bytes] { plain(bytes); }),
                AllOf(StartsWith("x.npy: array 'x': "), EndsWith(says)));
  EXPECT_THAT(complaint([&] { npy_file{folder_.path() / "none.npy"}; }), HasSubstr("No such file"));
}

/// Every damage ends in numbers or in one line, plain and packed. A plain file has no checksum, so a number
/// that changed there goes unnoticed; what changed in the header or in the length does not.
TEST_F(NpyFile, EndsInNumbersOrInOneLine) {
  const std::string bytes = npy("<f4", "(4, 5)", eighty_bytes());
  std::mt19937 random(4);
  const auto read = [&](const std::string& damaged) {
    npy_file file = plain(damaged);
    ASSERT_LE(file.header().dims.size(), std::size_t{1} << 20) << "before memory is taken";
    floats to(file.header().dims.size());
    file.read(to);
  };
  EXPECT_LT(read_though_damaged(bytes, random, read), 400);
  EXPECT_LT(read_though_damaged(gzipped(bytes), random, read), 60);
}

npy_header parsed(std::string_view text) { return parse_npy_text("a.npz", "array 'x'", text); }

std::string text_complaint(std::string_view text) {
  return complaint([&] { parsed(text); });
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
    EXPECT_THAT(text_complaint(text), StartsWith("a.npz: array 'x': ")) << text;
}

TEST(NpyHeader, TakesTypesByTheirByteOrderAndFieldsInAnyOrder) {
  for (const std::string type : {"", "=f4", "f4", "<", ">c8", "|S3"})
    EXPECT_THAT(text_complaint("{'descr': '" + type + "', 'fortran_order': False, 'shape': (3,), }"),
                HasSubstr("expected numbers or truth values, found type '"))
        << type;
  EXPECT_EQ(parsed("{'shape':(0,2),'descr':'<i8','fortran_order':False}").dims, (shape{0, 2}));
  EXPECT_FALSE(parsed("{'descr': '|b1', 'fortran_order': True, 'shape': (2,), }").is_fortran)
      << "of one axis both orders are one";
}

TEST(NpyHeader, RefusesPreamblesOfAnotherFormat) {
  const std::pair<std::string, const char*> all[] = {
      {"PK\3\4 something else", "expected an array of numpy, found 'PK"},
      {"\x93NUMPY", "expected an array of numpy"},
      {std::string("\x93NUMPY\x04\0\0\0\0\0", 12), "found 4"},
      {std::string("\x93NUMPY\x02\0\0\0\0\x7f", 12), "expected a header of at most 65536 bytes"}};
  for (const auto& [bytes, says] : all)
    EXPECT_THAT(complaint([&bytes = bytes] { parse_npy_preamble("a.npz", "array 'x'", bytes); }),
                HasSubstr(says));
}

class Npz : public ::testing::Test {
protected:
  using entries = std::vector<std::pair<std::string, std::string>>;

  std::filesystem::path zipped(const entries& all, int method = ZIP_CM_STORE) const {
    const auto path = folder_.path() / "x.npz";
    std::filesystem::remove(path);
    zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
    for (const auto& [name, bytes] : all) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      const auto index = static_cast<zip_uint64_t>(zip_file_add(archive, name.c_str(), source, 0));
      zip_set_file_compression(archive, index, method, 0);
    }
    EXPECT_EQ(zip_close(archive), 0);
    return path;
  }
  static floats floats_in(npz_file& file, const std::string& name) {
    floats numbers(file.find(name)->header.dims.size());
    file.read(*file.find(name), numbers);
    return numbers;
  }

  const scratch_folder folder_;
};

TEST_F(Npz, GivesBackWhatWasWritten) {
  const auto path = folder_.path() / "w.npz";
  const floats a{1, 2, 3, 4, 5, 6}, b{-0.5F};
  const arrays_to_store arrays{{"dense1/weights", {2, 3}, a}, {"one", {}, b}, {"none", {0, 3}, {}}};
  write_npz(path, arrays, {{"text", "Sch\u00fcrze"}, {"empty", ""}});
  const std::string first = content(path);
  EXPECT_TRUE(npz_file::is_npz(path));
  npz_file file(path);
  EXPECT_THAT(file.arrays(), SizeIs(5));
  EXPECT_EQ(file.find("dense1/weights")->header.dims, (shape{2, 3}));
  EXPECT_EQ(floats_in(file, "dense1/weights"), a);
  EXPECT_EQ(floats_in(file, "one"), b);
  std::vector<std::uint8_t> text(file.find("text")->header.dims.size());
  file.read(*file.find("text"), text);
  EXPECT_EQ(std::string(text.begin(), text.end()), "Sch\u00fcrze");
  EXPECT_EQ(file.find("two"), nullptr);
  write_npz(path, arrays, {{"text", "Sch\u00fcrze"}, {"empty", ""}});
  EXPECT_EQ(content(path), first) << "the same file for the same numbers";
}

TEST_F(Npz, RefusesArraysThatLie) {
  for (const auto& [bytes, says] : arrays_that_lie)
    EXPECT_THAT(complaint([&, array = entries{{"a.npy", bytes}}] { npz_file(zipped(array)); }),
                AllOf(StartsWith("x.npz: array 'a': "), EndsWith(says)));
  const entries text{{"a.txt", "hello"}};
  EXPECT_THAT(complaint([&] { npz_file(zipped(text)); }),
              HasSubstr("expected arrays of numpy, found the entry 'a.txt'"));
}

/// The directory and the header of the array agree on 2 GB, but three packed bytes cannot hold them.
TEST_F(Npz, RefusesNumbersThatDoNotFit) {
  const entries all{{"far.npy", npy("<i8", "(1,)", bytes_of<std::int64_t>({std::int64_t{1} << 40}))}};
  npz_file file(zipped(all));
  std::vector<std::int32_t> one(1);
  floats two(2);
  EXPECT_EQ(complaint([&] { file.read(*file.find("far"), one); }),
            "x.npz: array 'far': number 0 is no whole number, or too large for a class");
  EXPECT_THROW(file.read(*file.find("far"), two), std::invalid_argument);
}

TEST_F(Npz, RefusesASizeThatItsPackedBytesCannotHold) {
  const std::string array = npy("|u1", "(2000000000,)", "abc");
  std::string bytes = content(zipped({{"a.npy", array}}, ZIP_CM_DEFLATE));
  const std::size_t directory = bytes.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  bytes.replace(directory + 24, 4, bytes_of({static_cast<std::uint32_t>(array.size() - 3 + 2'000'000'000)}));
  EXPECT_THAT(complaint([&] { npz_file(folder_.write("x.npz", bytes)); }),
              HasSubstr("x.npz: array 'a' is said to have 2000000"));
}

TEST_F(Npz, RefusesFilesThatAreNone) {
  EXPECT_THAT(complaint([&] { npz_file(folder_.write("x.npz", "PK\3\4 but no more")); }),
              HasSubstr("expected a zip archive of numpy, found none: "));
  EXPECT_THAT(complaint([&] { npz_file(folder_.write("x.npz", "")); }), HasSubstr("x.npz: "));
  EXPECT_THAT(complaint([&] { npz_file{folder_.path()}; }),
              HasSubstr("expected a file, found something else"));
  EXPECT_THAT(complaint([&] { npz_file{folder_.path() / "none.npz"}; }),
              HasSubstr("cannot be read: No such file"));
}

/// Every damage ends in numbers or in one line. One that changes a number is noticed by the checksum.
TEST_F(Npz, EndsInNumbersOrInOneLine) {
  const entries all{{"a.npy", npy("<f4", "(4, 5)", eighty_bytes())},
                    {"b.npy", npy("|u1", "(80,)", eighty_bytes())}};
  std::mt19937 random(4);
  const auto read = [&](const std::string& damaged) {
    npz_file file(folder_.write("x.npz", damaged));
    for (const npz_array& a : file.arrays()) {
      floats to(a.header.dims.size());
      file.read(a, to);
    }
  };
  for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE})
    EXPECT_LT(read_though_damaged(content(zipped(all, method)), random, read), 300) << "most are noticed";
}

TEST_F(Npz, IsNotWrittenWhereItCannotBe) {
  const floats a{1, 2};
  const arrays_to_store one{{"a", {2}, a}}, two{{"a", {2}, a}, {"a", {2}, a}}, wrong{{"a", {3}, a}};
  const std::map<std::string, std::string> text{{"a", ""}};
  const auto path = folder_.write("w.npz", "as before");
  expect_refused({
      {"one name twice", [&] { write_npz(path, two, {}); }, "two arrays are called 'a'"},
      {"a text of that name", [&] { write_npz(path, one, text); }, "two arrays are called 'a'"},
      {"another shape", [&] { write_npz(path, wrong, {}); }, "has 2 numbers for a shape of 3"},
      {"a full disk", [&] { write_npz("/dev/full", one, {}); }, "cannot be written"},
      {"no folder", [&] { write_npz(folder_.path() / "none" / "w.npz", one, {}); },
       "cannot be written: No such file or directory"},
  });
  EXPECT_EQ(content(path), "as before");
}

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
  floats numbers_of(safetensors_file& file, const std::string& name) {
    const stored_array* const found = file.find(name);
    floats numbers(found->dims.size());
    file.read(*found, numbers);
    return numbers;
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "w.safetensors";
};

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  const floats a{1, 2, 3, 4, 5, 6}, b{-0.0F}, none;
  const float odd = std::numeric_limits<float>::denorm_min();
  const floats c{odd, std::numeric_limits<float>::quiet_NaN()};
  write_safetensors(path_,
                    arrays_to_store{{"dense1/weights", {2, 3}, a},
                                    {"scalar", {}, b},
                                    {"nothing", {0, 4}, none},
                                    {"odd \"name\"\n", {2}, c}},
                    {{"model", "mlp"}, {"note", "ünder"}});
  safetensors_file file(path_);
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("model", "mlp"), Pair("note", "ünder")));
  ASSERT_THAT(file.arrays(), SizeIs(4));
  EXPECT_EQ(file.arrays()[0].name, "dense1/weights");
  EXPECT_EQ(file.arrays()[0].dims, (shape{2, 3}));
  EXPECT_EQ(numbers_of(file, "dense1/weights"), a);
  EXPECT_TRUE(std::signbit(numbers_of(file, "scalar")[0]));
  EXPECT_THAT(numbers_of(file, "nothing"), IsEmpty());
  EXPECT_THAT(numbers_of(file, "odd \"name\"\n"), ElementsAre(odd, IsNan()));
  EXPECT_EQ(file.find("other"), nullptr);
}

/// Some readers map the file into memory.
TEST_F(Safetensors, AlignsItsNumbers) {
  const floats one{1};
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    write_safetensors(path_, arrays_to_store{{name, {1}, one}}, {});
    EXPECT_EQ((std::filesystem::file_size(path_) - sizeof(float)) % 8, 0U);
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

TEST_F(Safetensors, RefusesNumbersThatAreNoWeights) {
  const std::string header = R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("big":{"dtype":"F64","shape":[2],"data_offsets":[8,24]}})";
  safetensors_file file(write(with_length(header, bytes_of<std::int64_t>({7}) + bytes_of({1.0, 1e300}))));
  floats one(1), two(2);
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
  const auto of = [&](const std::string& type, const std::string& dims, const std::string& offsets) {
    return reading(
        array(R"("dtype":")" + type + R"(","shape":[)" + dims + R"(],"data_offsets":[)" + offsets + "]"));
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
      {"one offset", of("F32", "2", "0"), "its two data_offsets"},
      {"three offsets", of("F32", "2", "0,8,9"), "more than two offsets"},
      {"an unknown type", of("F31", "2", "0,8"), "unknown type 'F31'"},
      {"another length", of("F32", "3", "0,8"), "cannot take the bytes from 0 to 8"},
      {"half a number", of("F64", "0", "0,7"), "cannot take the bytes"},
      {"backwards", of("F32", "2", "8,0"), "cannot take the bytes"},
      {"a length that wraps", of("F32", "4611686018427387906", "0,8"), "more numbers than memory"},
      {"axes whose product wraps", of("F32", "4294967296,4294967296,2", "0,8"), "more numbers than memory"},
      {"nine axes", of("F32", "1,1,1,1,1,1,1,1,2", "0,8"), "more than 8 axes"},
      {"a negative axis", of("F32", "-2", "0,8"), "a negative number"},
      {"half an axis", of("F32", "2.5", "0,8"), "a number with a fraction"},
      {"a gap", of("F32", "1", "4,8"), "begins at byte 4 of the numbers, where byte 0 was expected"},
      {"too few", of("F32", "1", "0,4"), "the arrays take 4 bytes, and the file has 8"},
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
  const floats numbers{1, 2, 3};
  write_safetensors(path_, arrays_to_store{{"a", {3}, numbers}, {"b", {1}, std::span(numbers).first(1)}},
                    {{"k", "v"}});
  const std::string bytes = content(path_);
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
  const floats two{1, 2};
  const auto writing = [&](const std::filesystem::path& to, const arrays_to_store& arrays) {
    return [to, arrays] { write_safetensors(to, arrays, {}); };
  };
  expect_refused({
      {"a name twice", writing(path, {{"a", {2}, two}, {"a", {2}, two}}), "two arrays are called 'a'"},
      {"the name of the texts", writing(path, {{"__metadata__", {2}, two}}), "__metadata__"},
      {"another shape", writing(path, {{"a", {3}, two}}), "array 'a' has 2 numbers for a shape of 3"},
      {"no folder", writing("/there/is/none/w", {}), "cannot be written: No such file"},
      {"a full disk", writing("/dev/full", {{"a", {2}, two}}), "cannot be written: No space left"},
  });
  EXPECT_EQ(std::filesystem::file_size(path), 6U) << "what was there is there";
}

} // namespace
} // namespace mailgrad
