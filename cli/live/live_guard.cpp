#include <mailgrad/cli/live/live_guard.hpp>

#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/files/file_error.hpp>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>

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
    reject("--live-token {}: others may open this file; take 'chmod 600' to it", file);
  std::string token(bytes.data(), static_cast<std::size_t>(count));
  if (token.ends_with('\n')) token.pop_back();
  if (token.ends_with('\r')) token.pop_back(); // a line end of Windows
  const bool plain =
      std::ranges::all_of(token, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
  if (!plain || token.size() < shortest_token || token.size() > longest_token)
    reject(
        "--live-token {}: expected one line of {} to {} letters, digits, '-' and '_', found {} characters{}",
        file, shortest_token, longest_token, token.size(), plain ? "" : " with others among them");
  return token;
}

/// Takes the same time wherever they differ.
bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

http_response forbidden(std::string why) { return {.status = 403, .body = std::move(why) + '\n'}; }

} // namespace

std::string drawn_secret() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    throw std::runtime_error("the system has no random bytes for a token");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<live_options> understood(const live_args& w) {
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

std::vector<std::string> words_of(const live_args& w) {
  std::vector<std::string> words;
  if (w.wanted) words.push_back(w.address.empty() ? "--live" : "--live=" + w.address);
  if (!w.token_file.empty()) words.push_back("--live-token=" + w.token_file);
  if (w.control) words.emplace_back("--live-control");
  return words;
}

live_guard::live_guard(listen_address where, std::string token, std::string key)
    : where_(std::move(where)), token_(std::move(token)), key_(std::move(key)) {}

bool live_guard::names_this_machine(std::string_view host) const {
  const std::array names{to_string(where_), fmt::format("localhost:{}", where_.port),
                         fmt::format("127.0.0.1:{}", where_.port), fmt::format("[::1]:{}", where_.port)};
  const auto is_host = [&](std::string_view name) {
    if (where_.port == 80) name.remove_suffix(host.ends_with(":80") ? 0 : 3); // browsers leave it out
    return host == name;
  };
  return std::ranges::any_of(names, is_host);
}

/// Cookies do not know ports, so each run on a machine has a cookie of its own.
std::string live_guard::cookie_name() const { return fmt::format("mailgrad-{}", where_.port); }

bool live_guard::knows_token(const http_request& asked) const {
  constexpr std::string_view bearer = "Bearer ";
  const std::string_view authorization = asked.field("authorization");
  if (authorization.starts_with(bearer) && same_secret(authorization.substr(bearer.size()), token_))
    return true;
  for (const auto& shown : {asked.argument("token"), asked.cookie(cookie_name())})
    if (shown && same_secret(*shown, token_)) return true;
  return false;
}

std::optional<http_response> live_guard::refuses(const http_request& asked) const {
  if (token_.empty()) {
    if (names_this_machine(asked.field("host"))) return std::nullopt;
    return http_response{
        .status = 421,
        .body = fmt::format("This page is at {}; the request names another host.\n", to_string(where_))};
  }
  if (knows_token(asked)) return std::nullopt;
  return http_response{.status = 401,
                       .body = "This page asks for a token. The address that mailgrad printed at the start "
                               "has it behind '?token='.\n",
                       .fields = {{"WWW-Authenticate", "Bearer"}}};
}

std::optional<http_response> live_guard::refuses_change(const http_request& asked) const {
  if (key_.empty())
    return forbidden(
        "This page only shows the run. Start mailgrad with --live-control to change it from here.");
  if (asked.field("content-type") != "application/json")
    return http_response{.status = 415, .body = "Expected a body of the type application/json.\n"};
  const std::string_view origin = asked.field("origin");
  if (!origin.empty() && origin != fmt::format("http://{}", asked.field("host")))
    return forbidden("The request comes from another site.");
  const std::string_view site = asked.field("sec-fetch-site");
  if (!site.empty() && site != "same-origin") return forbidden("The request comes from another site.");
  if (!same_secret(asked.field("x-mailgrad-key"), key_))
    return forbidden("The request lacks the key of this run, which its page was told. Load the page again.");
  return std::nullopt;
}

std::string live_guard::cookie() const {
  if (token_.empty()) return {};
  return fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token_);
}

/// 0.0.0.0 is no host to go to, but leads to this machine.
std::string live_guard::url() const {
  listen_address shown = where_;
  if (shown.host == "0.0.0.0") shown.host = "127.0.0.1";
  if (shown.host == "::") shown.host = "::1";
  return fmt::format("http://{}/{}", to_string(shown), token_.empty() ? "" : "?token=" + token_);
}

} // namespace mailgrad
