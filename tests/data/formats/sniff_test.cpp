#include <mailgrad/data/formats/sniff.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

namespace mailgrad {
namespace {

file_format sniff(std::string_view content) {
  const scratch_folder folder;
  EXPECT_EQ(format_of_content(folder.write("x.gz", gzipped(content))),
            format_of_content(folder.write("x", content)));
  return format_of_content(folder.path() / "x");
}

TEST(Sniff, KnowsNames) {
  EXPECT_EQ(format_of_name("farm-ads-vect.gz"), file_format::libsvm);
  EXPECT_EQ(format_of_name("letter-recognition.data"), file_format::csv);
  EXPECT_EQ(format_of_name("train.bin.gz"), file_format::cifar);
  EXPECT_EQ(format_of_name("input.txt"), file_format::text);
  EXPECT_EQ(format_of_name("a9a"), file_format::automatic);
  for (const char* name : {"X.CSV", "x.Csv.Gz", "LETTER.DATA"})
    EXPECT_EQ(format_of_name(name), file_format::csv) << name;
  EXPECT_EQ(format_of_name("B.NPZ"), file_format::npz);
  EXPECT_EQ(format_of_name("RATINGS.DAT"), file_format::ratings);
}

TEST(Sniff, KnowsContents) {
  EXPECT_EQ(sniff(idx_images(1, 1, 1, "x")), file_format::idx);
  EXPECT_EQ(sniff("-1 3:1 11:1 \n"), file_format::libsvm);
  EXPECT_EQ(sniff("1\n0\n1 3:1\n"), file_format::libsvm);
  EXPECT_EQ(sniff("1\t3:1\t11:1\n"), file_format::libsvm);
  EXPECT_EQ(sniff("# of 2, 3 and 4\n#\n2 qid:7 1:0.5\n"), file_format::libsvm);
  EXPECT_EQ(sniff("T,2,8\n"), file_format::csv);
  EXPECT_EQ(sniff("a;b;c\n1;2;3\n"), file_format::csv);
  EXPECT_EQ(sniff("First Citizen:\nBefore we proceed any further, hear me speak.\n"), file_format::text);
  EXPECT_EQ(sniff("\ufeff-1 3:1 11:1 \r\n"), file_format::libsvm);
  EXPECT_EQ(sniff("\ufeff1,T\r\n"), file_format::csv);
  EXPECT_EQ(sniff(std::string("\1\2\3\0\5", 5)), file_format::automatic);
  EXPECT_EQ(sniff(""), file_format::automatic);
}

} // namespace
} // namespace mailgrad
