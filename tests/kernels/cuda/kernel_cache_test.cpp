#include "../../support/scratch_files.hpp"

#include <mailgrad/kernels/cuda/kernel_cache.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace mailgrad {
namespace {

using cuda::kernel_cache;
namespace fs = std::filesystem;

std::vector<std::byte> code_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Sets variables of the environment as long as it lives.
class set_variable {
public:
  set_variable(const char* name, const char* value) : name_(name) {
    if (const char* const old = std::getenv(name)) before_ = old;
    setenv(name, value, 1);
  }
  set_variable(const set_variable&) = delete;
  set_variable& operator=(const set_variable&) = delete;
  ~set_variable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }

private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Names are hashes; a word says which one is meant.
std::string hash_of(const std::string& word) {
  const std::string digits = "0123456789abcdef";
  std::string name;
  for (const char letter : word) name += {digits[letter / 16 % 16], digits[letter % 16]};
  return name + std::string(kernel_cache::name_size - name.size(), '0');
}

class KernelCache : public ::testing::Test {
protected:
  fs::path entry(const std::string& word) const {
    return scratch_.path() / "deeper" / (hash_of(word) + ".kernel");
  }
  void set_age(const std::string& name, int hours) const {
    fs::last_write_time(entry(name), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  scratch_folder scratch_;
  kernel_cache cache_{scratch_.path() / "deeper"};
};

TEST_F(KernelCache, FindsWhatWasKept) {
  EXPECT_EQ(cache_.find(hash_of("one")), std::nullopt);
  cache_.keep(hash_of("one"), code_of("code of one"));
  cache_.keep(hash_of("two"), code_of(""));
  EXPECT_EQ(cache_.find(hash_of("one")), code_of("code of one"));
  EXPECT_EQ(cache_.find(hash_of("two")), code_of(""));
  EXPECT_EQ(kernel_cache(scratch_.path() / "deeper").find(hash_of("one")), code_of("code of one"))
      << "of another process";
}

TEST_F(KernelCache, TakesNoEntryThatWasCut) {
  cache_.keep(hash_of("one"), code_of("code of one"));
  const std::string whole = read(entry("one"));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(entry("one"), std::ios::binary) << whole.substr(0, bytes);
    EXPECT_EQ(cache_.find(hash_of("one")), std::nullopt) << bytes;
  }
  std::ofstream(entry("one"), std::ios::binary) << whole << "!";
  EXPECT_EQ(cache_.find(hash_of("one")), std::nullopt) << "longer";
  cache_.keep(hash_of("one"), code_of("code of one"));
  EXPECT_EQ(cache_.find(hash_of("one")), code_of("code of one")) << "it is written again";
}

TEST_F(KernelCache, TakesNoEntryWithAFlippedBit) {
  cache_.keep(hash_of("one"), code_of("code of one"));
  const std::string whole = read(entry("one"));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    std::ofstream(entry("one"), std::ios::binary) << damaged;
    EXPECT_EQ(cache_.find(hash_of("one")), std::nullopt) << bit;
  }
}

TEST_F(KernelCache, TakesNoEntryOfSomethingElse) {
  cache_.keep(hash_of("one"), code_of("code of one"));
  fs::copy_file(entry("one"), entry("two"));
  EXPECT_EQ(cache_.find(hash_of("two")), std::nullopt) << "renamed";
  fs::create_directory(entry("three"));
  EXPECT_EQ(cache_.find(hash_of("three")), std::nullopt) << "a folder";
  ASSERT_EQ(mkfifo(entry("four").c_str(), 0600), 0);
  EXPECT_EQ(cache_.find(hash_of("four")), std::nullopt) << "a pipe, which nobody writes to";
}

TEST_F(KernelCache, ForgetsWhatWasWantedLeastLately) {
  const std::vector<std::byte> code(1000);
  const kernel_cache small(scratch_.path() / "deeper", 3500);
  for (const char* word : {"one", "two", "three"}) small.keep(hash_of(word), code);
  set_age("one", 3), set_age("two", 2), set_age("three", 1);
  EXPECT_TRUE(small.find(hash_of("one")));
  small.keep(hash_of("four"), code);
  EXPECT_TRUE(small.find(hash_of("one"))) << "it was wanted a moment ago";
  EXPECT_FALSE(small.find(hash_of("two")));
  EXPECT_TRUE(small.find(hash_of("three")));
  EXPECT_TRUE(small.find(hash_of("four")));
}

/// MAILGRAD_KERNEL_CACHE may name a folder of the user's.
TEST_F(KernelCache, ForgetsNothingButItsOwn) {
  const kernel_cache small(scratch_.path() / "deeper", 10);
  small.keep(hash_of("one"), code_of("code"));
  const std::string hash = hash_of("two"), shorter = hash.substr(1), other = "g" + shorter;
  const std::string foreign[] = {
      "data.csv",    "weights.kernel",      shorter + ".kernel",    other + ".kernel",   hash,
      hash + ".csv", hash + ".csv.partial", "0" + hash + ".kernel", hash + ".kernel.old"};
  const auto write_old = [&](const std::string& name) {
    const fs::path file = scratch_.path() / "deeper" / name;
    std::ofstream(file) << std::string(1000, 'x');
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return file;
  };
  for (const std::string& name : foreign) write_old(name);
  const fs::path data = write_old("data.csv"), link = entry("a link"), pipe = entry("a pipe");
  fs::create_symlink(data, link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const fs::path abandoned = write_old(hash_of("gone") + ".kernel.partial");
  small.keep(hash_of("three"), code_of("code"));
  for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(scratch_.path() / "deeper" / name)) << name;
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(pipe));
  EXPECT_FALSE(fs::exists(abandoned)) << "a process died while it wrote";
  EXPECT_FALSE(fs::exists(entry("one")));
}

TEST_F(KernelCache, CountsNothingButItsOwn) {
  const kernel_cache small(scratch_.path() / "deeper", 3500);
  small.keep(hash_of("one"), code_of("code"));
  std::ofstream(scratch_.path() / "deeper" / "data.csv") << std::string(10000, 'x');
  small.keep(hash_of("two"), code_of("code"));
  EXPECT_TRUE(small.find(hash_of("one")));
  EXPECT_TRUE(small.find(hash_of("two")));
}

TEST_F(KernelCache, IsWrittenByTwoAtOnce) {
  const auto write_all = [&](char letter) {
    const kernel_cache own(scratch_.path() / "deeper");
    for (int i = 0; i < 50; ++i) {
      const std::string name = hash_of("entry " + std::to_string(i));
      own.keep(name, code_of(name + std::string(2000, letter)));
      if (const auto found = own.find(name)) {
        const std::string text(reinterpret_cast<const char*>(found->data()), found->size());
        EXPECT_TRUE(text == name + std::string(2000, 'a') || text == name + std::string(2000, 'b')) << text;
      }
    }
  };
  { const std::jthread one(write_all, 'a'), two(write_all, 'b'); }
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(cache_.find(hash_of("entry " + std::to_string(i)))) << i;
  for (const auto& file : fs::directory_iterator(scratch_.path() / "deeper"))
    EXPECT_EQ(file.path().extension(), ".kernel") << file;
}

TEST_F(KernelCache, KeepsNothingWhereItCannot) {
  const kernel_cache none(""), full("/dev/full/kernels"), in_a_file(scratch_.write("file", "text"));
  for (const kernel_cache& cache : {none, full, in_a_file}) {
    cache.keep(hash_of("one"), code_of("code"));
    EXPECT_EQ(cache.find(hash_of("one")), std::nullopt);
  }
}

TEST_F(KernelCache, LiesWhereTheUserKeepsCaches) {
  const set_variable named("MAILGRAD_KERNEL_CACHE", ""), caches("XDG_CACHE_HOME", "/caches"),
      home("HOME", "/at/home");
  EXPECT_EQ(kernel_cache::usual_folder(), "/caches/mailgrad/kernels");
  {
    const set_variable relative("XDG_CACHE_HOME", "caches");
    EXPECT_EQ(kernel_cache::usual_folder(), "/at/home/.cache/mailgrad/kernels");
    const set_variable homeless("HOME", "");
    EXPECT_EQ(kernel_cache::usual_folder(), "");
  }
  {
    const set_variable other("MAILGRAD_KERNEL_CACHE", "elsewhere");
    EXPECT_EQ(kernel_cache::usual_folder(), "elsewhere");
  }
  const set_variable off("MAILGRAD_KERNEL_CACHE", "off");
  EXPECT_EQ(kernel_cache::usual_folder(), "");
}

} // namespace
} // namespace mailgrad
