#include <mailgrad/files/digests.hpp>

#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>

#include <boost/crc.hpp>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <zlib.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>

namespace mailgrad {

namespace {

constexpr std::size_t magic_bytes = 8, header_bytes = magic_bytes + 4 + 8, sealed_header = header_bytes + 4;

std::uint32_t checksum(std::string_view header, std::string_view content) {
  const auto add = [](uLong before, std::string_view bytes) {
    return crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  };
  return static_cast<std::uint32_t>(add(add(0, header), content));
}

using digest_bytes = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string in_digits(const digest_bytes& digest, unsigned int length) {
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(length), ""));
}

} // namespace

std::vector<std::byte> sealed(const seal& s, std::string_view content) {
  std::string all(s.magic);
  append_number<4>(all, s.format);
  append_number<8>(all, content.size());
  append_number<4>(all, checksum(all, content));
  all += content;
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

std::string_view unsealed(const seal& s, std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto refuse = [&](std::size_t where, const std::string& text) {
    throw archive_error(fmt::format("{}: byte {}: {}", s.what, where, text));
  };
  if (all.size() < sealed_header)
    refuse(all.size(), fmt::format("expected a header of {} bytes, found {}", sealed_header, all.size()));
  if (!all.starts_with(s.magic))
    refuse(0, fmt::format("expected '{}', found {}", s.magic, in_quotes(all.substr(0, magic_bytes))));
  if (const auto format = number_in<4>(all.substr(magic_bytes)); format != s.format)
    refuse(magic_bytes, fmt::format("is of format {}, and this build knows format {}", format, s.format));
  const std::string_view content = all.substr(sealed_header);
  if (const auto length = number_in<8>(all.substr(magic_bytes + 4)); length != content.size())
    refuse(magic_bytes + 4,
           fmt::format("expected {} bytes behind the header, found {}", length, content.size()));
  const auto stated = static_cast<std::uint32_t>(number_in<4>(all.substr(header_bytes)));
  const std::uint32_t found = checksum(all.substr(0, header_bytes), content);
  if (found != stated)
    refuse(header_bytes, fmt::format("the bytes are damaged: expected a checksum of {}, found {}",
                                     in_hex(stated), in_hex(found)));
  return content;
}

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
