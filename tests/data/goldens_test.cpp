#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tests/data/golden_bytes.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <type_traits>

// Files of every format beside what the programs read from them that most people use: Pillow, NumPy,
// scikit-learn. Each JSON file in goldens/ is made by the script beside it, whose first lines say what it
// holds.

namespace mailgrad {
namespace {

using json = nlohmann::json;

/// Tries each case of a file, and says by its name which one fails.
template <class Try>
void try_goldens(const std::string& name, std::size_t least, Try try_case) {
  std::ifstream file(std::string(MAILGRAD_GOLDENS) + "/" + name + ".json");
  ASSERT_TRUE(file) << name;
  const json cases = json::parse(file).at("cases");
  EXPECT_GE(cases.size(), least);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    EXPECT_NO_THROW(try_case(golden));
  }
}

void expect_pixels(picture_file picture, const json& golden, const char* colours, std::size_t channels) {
  const std::string expected = bytes_in(golden.at(colours));
  std::vector<std::uint8_t> pixels(picture.width() * picture.height() * channels);
  ASSERT_EQ(pixels.size(), expected.size());
  picture.read(pixels, channels);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reinterpret_cast<const char*>(pixels.data())))
      << colours;
}

TEST(Goldens, OfPicturesAreReadAsByPillow) {
  const scratch_folder folder;
  try_goldens("pictures", 130, [&](const json& golden) {
    const auto file = folder.write("x", bytes_in(golden.at("file")));
    if (golden.contains("refusal")) {
      const std::string why = complaint([&] {
        picture_file picture(file);
        std::vector<std::uint8_t> pixels(picture.width() * picture.height());
        picture.read(pixels, 1);
      });
      EXPECT_THAT(why, testing::StartsWith(golden.at("refusal")));
      return;
    }
    const picture_file picture(file);
    EXPECT_EQ(picture.width(), golden.at("width"));
    EXPECT_EQ(picture.height(), golden.at("height"));
    EXPECT_EQ(picture.has_colours(), golden.at("colours"));
    expect_pixels(picture_file(file), golden, "rgb", 3);
    expect_pixels(picture_file(file), golden, "grey", 1);
  });
}

std::vector<float> dense(const sparse_features& f) {
  std::vector<float> numbers((f.offsets.size() - 1) * f.width);
  for (std::size_t row = 0; row + 1 < f.offsets.size(); ++row)
    for (std::size_t i = f.offsets[row]; i < f.offsets[row + 1]; ++i)
      numbers[row * f.width + static_cast<std::size_t>(f.columns[i])] = f.values[i];
  return numbers;
}

/// A part of a data set as its golden has it. Bytes are not scaled.
json as_golden(const dataset& part) {
  const shape& dims = part.sample_dims();
  json found{{"dims", std::vector<std::size_t>(dims.begin(), dims.end())}};
  std::visit(
      [&]<class Features>(const Features& f) {
        if constexpr (std::is_same_v<Features, sparse_features>)
          found["numbers"] = dense(f);
        else if constexpr (requires { f.dims; })
          found["numbers"] = f.values;
      },
      part.features());
  if (part.has_targets())
    found["targets"] = part.targets();
  else
    found["labels"] = part.labels();
  return found;
}

open_options options_in(const json& golden) {
  open_options o;
  const json given = golden.value("options", json::object());
  if (given.contains("task"))
    o.task = given.at("task") == "numbers" ? label_kind::numbers : label_kind::classes;
  o.features = given.value("features", 0);
  if (given.contains("record_dims"))
    o.record_dims = shape(given.at("record_dims").get<std::vector<std::size_t>>());
  return o;
}

/// Names of classes as the programs tell them, to whom "+1" is the number 1.
json as_values(const json& names) {
  json values;
  for (const std::string name : names) {
    const auto number = parse_number(name);
    values.push_back(number ? json(*number) : json(name));
  }
  return values;
}

/// Opens the files of a golden as a data set.
void try_data(const json& golden) {
  const scratch_folder folder;
  for (const auto& [name, bytes] : golden.at("files").items()) folder.write(name, bytes_in(bytes));
  const std::string path = (folder.path() / golden.value("open", "")).string();
  const open_options options = options_in(golden);
  if (golden.contains("refusal")) {
    EXPECT_THAT(complaint([&] { open_data(path, options); }), testing::StartsWith(golden.at("refusal")));
    return;
  }
  const data_split split = open_data(path, options);
  EXPECT_EQ(as_golden(split.train), golden.at("train"));
  EXPECT_EQ(as_golden(split.test), golden.at("test"));
  EXPECT_EQ(as_values(split.class_names), as_values(golden.value("class_names", json(split.class_names))));
}

TEST(Goldens, OfArraysAreReadAsByNumPy) { try_goldens("npz", 60, try_data); }
TEST(Goldens, OfLibsvmAreReadAsByScikitLearn) { try_goldens("libsvm", 30, try_data); }
TEST(Goldens, OfIdxAreReadAsItsDocumentSays) { try_goldens("idx", 15, try_data); }
TEST(Goldens, OfCifarAreReadAsItsDocumentSays) { try_goldens("cifar", 10, try_data); }

} // namespace
} // namespace mailgrad
