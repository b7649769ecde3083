#include <mailgrad/tests/files/array_bytes.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/files/npz.hpp>

#include <gmock/gmock.h>
#include <zip.h>

#include <fstream>
#include <random>
#include <sstream>

namespace mailgrad {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::npy;
using ::testing::SizeIs;

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
  static std::vector<float> floats(npz_file& file, const std::string& name) {
    std::vector<float> numbers(file.find(name)->header.dims.size());
    file.read(*file.find(name), numbers);
    return numbers;
  }
  std::string zip_complaint(const entries& all) const {
    return complaint([&] { npz_file(zipped(all)); });
  }
  static std::string content(const std::filesystem::path& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }

  const scratch_folder folder_;
};

TEST_F(Npz, GivesBackWhatWasWritten) {
  const auto path = folder_.path() / "w.npz";
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{-0.5F};
  write_npz(path,
            std::vector<array_to_store>{{"dense1/weights", {2, 3}, a}, {"one", {}, b}, {"none", {0, 3}, {}}},
            {{"text", "Sch\u00fcrze"}, {"empty", ""}});
  EXPECT_TRUE(npz_file::is_npz(path));
  npz_file file(path);
  EXPECT_THAT(file.arrays(), SizeIs(5));
  EXPECT_EQ(file.find("dense1/weights")->header.dims, (shape{2, 3}));
  EXPECT_THAT(floats(file, "dense1/weights"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(floats(file, "one"), ElementsAre(-0.5F));
  std::vector<std::uint8_t> text(file.find("text")->header.dims.size());
  file.read(*file.find("text"), text);
  EXPECT_EQ(std::string(text.begin(), text.end()), "Sch\u00fcrze");
  EXPECT_EQ(file.find("two"), nullptr);
}

TEST_F(Npz, IsTheSameFileForTheSameNumbers) {
  const std::vector<float> a{1, 2};
  const auto path = folder_.path() / "w.npz";
  write_npz(path, std::vector<array_to_store>{{"a", {2}, a}}, {});
  const std::string first = content(path);
  write_npz(path, std::vector<array_to_store>{{"a", {2}, a}}, {});
  EXPECT_EQ(content(path), first);
}

TEST_F(Npz, ReadsNumbersOfEveryType) {
  for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    npz_file file(zipped({{"f8.npy", npy("<f8", "(2,)", bytes_of({0.5, -3.0}))},
                          {"i8.npy", npy("<i8", "(2,)", bytes_of<std::int64_t>({-7, 1 << 20}))},
                          {"i1.npy", npy("|i1", "(2,)", "\xff\x01")},
                          {"u2.npy", npy("<u2", "(1,)", "\xff\xff")},
                          {"f2.npy", npy("<f2", "(1,)", std::string("\0\x3c", 2))},
                          {"b.npy", npy("|b1", "(2,)", std::string("\0\1", 2))}},
                         method));
    EXPECT_THAT(floats(file, "f8"), ElementsAre(0.5F, -3));
    EXPECT_THAT(floats(file, "i8"), ElementsAre(-7, 1 << 20));
    EXPECT_THAT(floats(file, "i1"), ElementsAre(-1, 1));
    EXPECT_THAT(floats(file, "u2"), ElementsAre(65535));
    EXPECT_THAT(floats(file, "f2"), ElementsAre(1));
    std::vector<std::int32_t> whole(2);
    file.read(*file.find("i8"), whole);
    EXPECT_THAT(whole, ElementsAre(-7, 1 << 20));
    file.read(*file.find("b"), whole);
    EXPECT_THAT(whole, ElementsAre(0, 1));
  }
}

TEST_F(Npz, RefusesNumbersThatDoNotFit) {
  npz_file file(zipped({{"wide.npy", npy("<f8", "(2,)", bytes_of({1.0, 1e39}))},
                        {"half.npy", npy("<f8", "(2,)", bytes_of({1.0, 0.5}))},
                        {"far.npy", npy("<i8", "(1,)", bytes_of<std::int64_t>({std::int64_t{1} << 40}))},
                        {"nan.npy", npy("<f4", "(1,)", bytes_of({std::nanf("")}))}}));
  std::vector<float> numbers(2);
  std::vector<std::int32_t> whole(2), one(1);
  EXPECT_EQ(complaint([&] { file.read(*file.find("wide"), numbers); }),
            "x.npz: array 'wide': number 1 is too large for float32");
  EXPECT_THAT(complaint([&] { file.read(*file.find("half"), whole); }),
              HasSubstr("number 1 is no whole number"));
  EXPECT_THAT(complaint([&] { file.read(*file.find("far"), one); }),
              HasSubstr("number 0 is no whole number"));
  EXPECT_THAT(complaint([&] { file.read(*file.find("nan"), one); }),
              HasSubstr("number 0 is no whole number"));
  EXPECT_THROW(file.read(*file.find("far"), numbers), std::invalid_argument);
}

TEST_F(Npz, RefusesArraysThatLie) {
  EXPECT_EQ(zip_complaint({{"a.npy", npy("<f4", "(3,)", "12345678")}}),
            "x.npz: array 'a': its shape of 3 needs 3 numbers of 4 bytes, found 8 bytes");
  EXPECT_THAT(zip_complaint({{"a.npy", npy("<f4", "(1000000000000,)", "12345678")}}),
              HasSubstr("found 8 bytes"));
  EXPECT_THAT(zip_complaint({{"a.npy", npy("<f4", "(1,)", "12345")}}), HasSubstr("found 5 bytes"));
  EXPECT_THAT(zip_complaint({{"a.npy", "short"}}), HasSubstr("expected an array of numpy, found 5 bytes"));
  EXPECT_THAT(zip_complaint({{"a.npy", std::string("\x93NUMPY\1\0\xff\xff{", 11) + "'descr': "}}),
              HasSubstr("its header is longer than the array"));
  EXPECT_THAT(zip_complaint({{"a.txt", "hello"}}),
              HasSubstr("expected arrays of numpy, found the entry 'a.txt'"));
  EXPECT_THAT(zip_complaint({{"a.npy", npy("|O", "(1,)", "pickled")}}), HasSubstr("found Python objects"));
}

/// The directory and the header of the array agree on 2 GB, but three packed bytes cannot hold them.
TEST_F(Npz, RefusesASizeThatItsPackedBytesCannotHold) {
  const std::string array = npy("|u1", "(2000000000,)", "abc");
  const auto path = zipped({{"a.npy", array}}, ZIP_CM_DEFLATE);
  std::string bytes = content(path);
  const std::size_t directory = bytes.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  const auto size = static_cast<std::uint32_t>(array.size() - 3 + 2'000'000'000);
  bytes.replace(directory + 24, 4, reinterpret_cast<const char*>(&size), 4);
  EXPECT_THAT(complaint([&] { npz_file(folder_.write("x.npz", bytes)); }),
              HasSubstr("x.npz: array 'a' is said to have 2000000"));
}

TEST_F(Npz, NoticesANumberThatChangedOnTheDisk) {
  std::string bytes = content(zipped({{"a.npy", npy("<f4", "(2,)", "abcdefgh")}}));
  bytes.replace(bytes.find("abcdefgh") + 7, 1, "x");
  npz_file file(folder_.write("x.npz", bytes));
  EXPECT_THAT(complaint([&] { floats(file, "a"); }), HasSubstr("x.npz: array 'a': CRC error"));
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
  std::string numbers;
  for (char c = 0; c < 80; ++c) numbers += c;
  const Npz::entries all{{"a.npy", npy("<f4", "(4, 5)", numbers)}, {"b.npy", npy("|u1", "(80,)", numbers)}};
  std::mt19937 random(4);
  for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    const std::string whole = content(zipped(all, method));
    int read = 0;
    for (int i = 0; i < 600; ++i) {
      std::string bytes = whole;
      const std::size_t at = random() % bytes.size();
      if (random() % 4 == 0)
        bytes.resize(at);
      else
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      try {
        npz_file file(folder_.write("x.npz", bytes));
        for (const npz_array& a : file.arrays()) {
          std::vector<float> to(a.header.dims.size());
          file.read(a, to);
        }
        ++read;
      } catch (const file_error& e) {
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
    }
    EXPECT_LT(read, 300) << "most damages are noticed";
  }
}

TEST_F(Npz, IsNotWrittenWhereItCannotBe) {
  const std::vector<float> a{1, 2};
  const std::vector<array_to_store> one{{"a", {2}, a}};
  EXPECT_THAT(complaint([&] { write_npz("/dev/full", one, {}); }), HasSubstr("cannot be written"));
  EXPECT_THAT(complaint([&] { write_npz(folder_.path() / "none" / "w.npz", one, {}); }),
              HasSubstr("cannot be written: No such file or directory"));
  const std::vector<array_to_store> two{{"a", {2}, a}, {"a", {2}, a}};
  const std::vector<array_to_store> wrong{{"a", {3}, a}};
  const auto path = folder_.write("w.npz", "as before");
  expect_refused({
      {"one name twice", [&] { write_npz(path, two, {}); }, "two arrays are called 'a'"},
      {"a text of that name",
       [&] {
         write_npz(path, one, {{"a", ""}});
       },
       "two arrays are called 'a'"},
      {"another shape", [&] { write_npz(path, wrong, {}); }, "has 2 numbers for a shape of 3"},
  });
  EXPECT_EQ(content(path), "as before");
}

} // namespace
} // namespace mailgrad
