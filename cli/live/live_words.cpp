#include <mailgrad/cli/live/live_words.hpp>

#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>
#include <openssl/rand.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token = 256;

/// The file itself is asked who may read it, not its path, which could lead to another one by then.
std::string token_in(const std::string& file) {
  errno = 0;
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  std::array<char, longest_token + 3> bytes{};
  const ssize_t count =
      descriptor < 0 || fstat(descriptor, &facts) != 0 ? -1 : read(descriptor, bytes.data(), bytes.size());
  const int why = errno;
  if (descriptor >= 0) close(descriptor);
  if (count < 0) throw_unreadable(file, why);
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw std::invalid_argument(
        fmt::format("--live-token {}: others may open this file; take 'chmod 600' to it", file));
  std::string token(bytes.data(), static_cast<std::size_t>(count));
  if (token.ends_with('\n')) token.pop_back();
  if (token.ends_with('\r')) token.pop_back(); // a line end of Windows
  const bool plain =
      std::ranges::all_of(token, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
  if (!plain || token.size() < shortest_token || token.size() > longest_token)
    throw std::invalid_argument(fmt::format(
        "--live-token {}: expected one line of {} to {} letters, digits, '-' and '_', found {} characters{}",
        file, shortest_token, longest_token, token.size(), plain ? "" : " with others among them"));
  return token;
}

} // namespace

std::string drawn_secret() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    throw std::runtime_error("the system has no random bytes for a token");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<live_options> understood(const live_words& w) {
  if (!w.wanted) return std::nullopt;
  live_options o;
  if (!w.address.empty()) {
    try {
      o.where = parse_listen_address(w.address);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(std::string("--live: ") + e.what());
    }
    o.any_port = false;
  }
  o.control = w.control;
  if (!w.token_file.empty())
    o.token = token_in(w.token_file);
  else if (o.control || !o.where.is_loopback())
    o.token = drawn_secret();
  return o;
}

std::vector<std::string> words_of(const live_words& w) {
  std::vector<std::string> words;
  if (w.wanted) words.push_back(w.address.empty() ? "--live" : "--live=" + w.address);
  if (!w.token_file.empty()) words.push_back("--live-token=" + w.token_file);
  if (w.control) words.emplace_back("--live-control");
  return words;
}

} // namespace mailgrad
