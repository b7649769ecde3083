#pragma once

#include <mailgrad/files/file_error.hpp>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string_view>

namespace mailgrad {

/// A folder for the files of one test. The destructor removes it.
class scratch_folder {
public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mailgrad-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the test");
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::filesystem::remove(path_ /
                            name); // some file systems flush a file that is overwritten, which is slow
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

private:
  std::filesystem::path path_;
};

inline std::string gzipped(std::string_view bytes) {
  z_stream z{};
  deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&z, bytes.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<unsigned>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<unsigned>(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

inline std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns,
                              std::string_view pixels) {
  return big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns) + std::string(pixels);
}

inline std::string idx_labels(std::uint32_t count, std::string_view labels) {
  return big_endian(0x801) + big_endian(count) + std::string(labels);
}

/// Expects `read` to throw a file_error of one line. Returns that line without the folder of the file.
template <class Read>
std::string complaint(Read read) {
  try {
    read();
  } catch (const file_error& e) {
    std::string text = e.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    const auto folder = text.find("mailgrad-");
    return folder == std::string::npos ? text : text.substr(text.find('/', folder) + 1);
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

} // namespace mailgrad
