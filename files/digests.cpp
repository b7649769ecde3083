#include <mailgrad/files/digests.hpp>

#include <boost/crc.hpp>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

using digest_bytes = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string in_digits(const digest_bytes& digest, unsigned int length) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

} // namespace

std::string sha256(std::span<const std::byte> bytes) {
  digest_bytes digest{};
  unsigned int length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr);
  return in_digits(digest, length);
}

std::string sha256_of(const std::filesystem::path& file) {
  constexpr std::size_t piece = 1 << 20;
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr);
  std::vector<char> bytes(piece);
  while (in.read(bytes.data(), piece), in.gcount() > 0)
    EVP_DigestUpdate(sum.get(), bytes.data(), static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad())
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), file.string());
  digest_bytes digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(sum.get(), digest.data(), &length);
  return in_digits(digest, length);
}

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

} // namespace mailgrad
