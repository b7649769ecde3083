#include <mailgrad/data/open.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <random>

namespace mailgrad {
namespace {

/// Cuts `bytes`, flips bits of it, or writes another byte, digit or separator somewhere.
std::string damaged(std::string bytes, std::mt19937& random) {
  constexpr std::string_view spice{"0123456789:,.-+ \n\r\t#\"en\0\xff\x80", 26};
  const int wounds = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < wounds && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 5) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 2:
      bytes[at] = spice[random() % spice.size()];
      break;
    case 3:
      bytes.insert(at, 1, spice[random() % spice.size()]);
      break;
    default:
      bytes.erase(at, 1 + random() % 8);
    }
  }
  return bytes;
}

struct damage_case {
  const char* name; ///< of the file to damage
  std::string bytes;
  open_options options;
  std::vector<std::pair<std::string, std::string>> companions;
};

std::vector<damage_case> damage_cases() {
  const std::string labels = idx_labels(4, {"\0\1\2\1", 4});
  const std::string images = idx_images(4, 2, 2, "abcdefghijklmnop");
  const std::vector<std::pair<std::string, std::string>> idx{{"train-images-idx3-ubyte", images},
                                                             {"train-labels-idx1-ubyte", labels},
                                                             {"t10k-images-idx3-ubyte", images},
                                                             {"t10k-labels-idx1-ubyte", labels}};
  open_options small;
  small.record_dims = {1, 2, 3};
  open_options windowed = small;
  windowed.window = 4;
  const std::string records = std::string("\0rRgGbB\1uvwxyz", 14) + std::string("\1......\0++++++", 14);
  const std::string csv = "a,b,class\n1,2.5,x\n-3,4e2,y\n5,\"6\",x\n7,8,y\n";
  const std::string svm = "+1 1:0.5 3:2 \n-1 2:-1e1 # remark\n-1\n+1 3:1 4:1 5:1\n";
  const std::string ratings = "1::22::8::1365029107\n1::333::7.5::136\n2::22::0::0\n";
  const std::string films = "022::To Be (1942)::Comedy|War\n333::A::Drama\n";
  const std::string prose =
      "To be, or not to be: that is the question. Na\u00efve \u20ac \U0001F600, is it not?";
  const std::string head = "\x93NUMPY\1" + std::string("\0A\0", 3);
  const std::string samples =
      head + "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2, 2), }  \n" + "abcdefghijklmnop";
  const std::string answers =
      head + "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }       \n" + "abab";
  const std::vector<std::pair<std::string, std::string>> arrays{{"y.npy", answers}};
  return {{"train-images-idx3-ubyte", images, small, idx},
          {"t10k-labels-idx1-ubyte", labels, small, idx},
          {"train-images-idx3-ubyte", gzipped(images), small, idx},
          {"x.bin", records, small, {}},
          {"x.bin", gzipped(records), small, {}},
          {"x.csv", csv, small, {}},
          {"x.csv", gzipped(csv), small, {}},
          {"x.libsvm", svm, small, {}},
          {"x.t", svm, small, {{"x", svm}}},
          {"x.libsvm", gzipped(svm), small, {}},
          {"ratings.dat", ratings, small, {{"movies.dat", films}}},
          {"movies.dat", films, small, {{"ratings.dat", ratings}}},
          {"x.txt", prose, windowed, {}},
          {"x.txt", gzipped(prose), windowed, {}},
          {"x", svm, small, {}},
          {"x.npy", samples, small, arrays},
          {"y.npy.gz", gzipped(answers), small, {{"x.npy", samples}}}};
}

TEST(Damage, EndsInADatasetOrInOneLine) {
  std::size_t read = 0, refused = 0, all = 0;
  for (const damage_case& c : damage_cases()) {
    const scratch_folder folder;
    for (const auto& [name, bytes] : c.companions) folder.write(name, bytes);
    const std::filesystem::path file = folder.write(c.name, c.bytes);
    const std::string at = (c.companions.empty() ? file : folder.path()).string();
    EXPECT_NO_THROW(open_data(at, c.options)) << c.name;
    for (const std::uint64_t seed : testing::slice_of(600)) {
      std::mt19937 random(seed);
      folder.write(c.name, damaged(c.bytes, random));
      ++all;
      try {
        const data_split split = open_data(at, c.options);
        EXPECT_GT(split.train.size(), 0U);
        EXPECT_LT(split.train.bytes() + split.test.bytes(), std::size_t{1} << 20);
        ++read;
      } catch (const file_error& e) {
        EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos) << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(20 * read, all);
  EXPECT_GT(3 * refused, all);
}

} // namespace
} // namespace mailgrad
