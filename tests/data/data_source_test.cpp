#include <mailgrad/data/open.hpp>

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

data_source sent(data_source s) {
  byte_archive_writer out;
  s.keep(out);
  byte_archive_reader in(out.bytes(), "source");
  data_source read;
  read.keep(in);
  in.require_end();
  return read;
}

std::string rows(int count) {
  std::string text = "width,colour,noise,kind\n";
  for (int i = 0; i < count; ++i)
    text += std::to_string(i % 7) + (i % 3 == 0 ? ",red," : ",blue,") + (i == 4 ? "" : std::to_string(i)) +
            (i % 2 == 0 ? ",a\n" : ",b\n");
  return text;
}

/// Whatever shapes the samples travels: a process that opens the file by what it was told has the same ones.
TEST(DataSource, OpensTheSameSamplesElsewhere) {
  const scratch_folder folder;
  const std::string csv = folder.write("rows.csv", rows(40)).string();
  const std::string text = folder.write("words.txt", std::string(400, 'a') + std::string(400, 'b')).string();
  std::vector<std::pair<std::string, std::function<void(open_options&)>>> kinds{
      {csv, [](open_options& o) { o.csv.missing = missing_values::mean; }},
      {csv,
       [](open_options& o) {
         o.csv.missing = missing_values::drop;
         o.csv.left_out = {"noise"};
         o.csv.label = csv_label::named;
         o.csv.label_column = "colour";
         o.seed = 9;
       }},
      {csv,
       [](open_options& o) {
         o.csv.missing = missing_values::drop;
         o.csv.categories = {"width"};
         o.csv.delimiter = ',';
         o.csv.decimal = '.';
         o.scale = feature_scale::none;
         o.files.train_fraction = 0.5;
         o.validation = 0.25;
       }},
      {text,
       [](open_options& o) {
         o.window = 7;
         o.stride = 3;
       }},
  };
  kinds.push_back({folder.write("rows.libsvm", "1 1:1\n0 2:1\n1 1:2\n0 3:1\n").string(), [](open_options& o) {
                     o.features = 9;
                     o.numbering = column_numbering::from_zero;
                   }});
  std::string last;
  for (const auto& [path, choose] : kinds) {
    open_options options;
    choose(options);
    const data_split here = open_data(path, options);
    ASSERT_TRUE(here.source);
    EXPECT_EQ(here.source->path, path);
    const data_split there = open_data(path, sent(*here.source).options);
    EXPECT_EQ(digest_of(there.train), digest_of(here.train));
    EXPECT_NE(digest_of(here.train), last) << "the options make a difference";
    last = digest_of(here.train);
  }
}

TEST(DataSource, IsNotToldOfDataForATrainedModel) {
  const scratch_folder folder;
  const std::string text = folder.write("words.txt", std::string(200, 'a')).string();
  open_options options;
  options.known = known_data{{"a"}, {}, {}};
  EXPECT_FALSE(open_data(text, options).source) << "its options hold what a model knows";
}

TEST(DataSource, RefusesAnOptionThatIsNone) {
  byte_archive_writer out;
  data_source s;
  s.options.files.format = static_cast<file_format>(77);
  s.keep(out);
  byte_archive_reader in(out.bytes(), "source");
  data_source read;
  EXPECT_THROW(read.keep(in), archive_error);
}

} // namespace
} // namespace mailgrad
