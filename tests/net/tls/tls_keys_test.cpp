#include <mailgrad/net/tls/tls_keys.hpp>

#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <stdexcept>
#include <system_error>

namespace mailgrad::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

struct TlsKeys : ::testing::Test {
  void SetUp() override {
    keys.make();
    others.make();
  }
  void expect_refused(const certificate_files& f, const std::string& file, const std::string& words) {
    EXPECT_THAT([&] { tls_keys::of_certificates(f); },
                ThrowsMessage<std::invalid_argument>(AllOf(StartsWith(file), HasSubstr(words))));
  }

  scratch_folder files;
  key_folder keys{files.path() / "keys"}, others{files.path() / "others"};
};

TEST_F(TlsKeys, AreNamedWithoutBeingTold) {
  EXPECT_THAT(tls_keys::of_token(keys.token())->words(), MatchesRegex("token [0-9a-f]{16}"));
  EXPECT_EQ(tls_keys::of_token(keys.token())->words(), tls_keys::of_token(keys.token())->words());
  EXPECT_NE(tls_keys::of_token(keys.token())->words(), tls_keys::of_token(others.token())->words());
  EXPECT_THAT(tls_keys::of_certificates(keys.of_worker())->words(),
              MatchesRegex("a certificate of 'Mailgrad CA [0-9a-f]{8}'"));
}

TEST_F(TlsKeys, AreRefusedIfOthersMayReadThem) {
  for (const mode_t wrong : {0640U, 0604U, 0644U, 0620U}) {
    chmod(keys.token().c_str(), wrong);
    EXPECT_THAT([&] { tls_keys::of_token(keys.token()); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(StartsWith(keys.token() + ": expected permission 0600, found 0"),
                          HasSubstr("run: chmod 600 " + keys.token()))));
  }
  chmod(keys.token().c_str(), 0400);
  EXPECT_NO_THROW(tls_keys::of_token(keys.token()));
  const certificate_files mine = keys.of_server();
  chmod(mine.key.c_str(), 0644);
  expect_refused(mine, mine.key, "expected permission 0600, found 0644");
}

TEST_F(TlsKeys, HaveToBelongTogether) {
  certificate_files mixed = keys.of_server();
  mixed.key = keys.of_worker().key;
  expect_refused(mixed, mixed.key, "expected the key of " + mixed.certificate);
  mixed = keys.of_server();
  mixed.authority = others.of_server().authority;
  expect_refused(mixed, mixed.certificate, "expected a certificate of 'Mailgrad CA ");
}

TEST_F(TlsKeys, AreNothingElse) {
  certificate_files wrong = keys.of_server();
  wrong.certificate = files.write("no.pem", "no certificate").string();
  expect_refused(wrong, wrong.certificate, "expected a certificate in PEM");
  wrong = keys.of_server();
  wrong.key = files.write("no.key", "no key").string();
  chmod(wrong.key.c_str(), 0600);
  expect_refused(wrong, wrong.key, "expected a private key in PEM");
  const std::string token = files.write("no.token", "too short").string();
  chmod(token.c_str(), 0600);
  EXPECT_THAT([&] { tls_keys::of_token(token); }, ThrowsMessage<std::invalid_argument>(HasSubstr(
                                                      "expected a token of 32 random bytes, found 9")));
  const std::string large = files.write("large", std::string(100'000, 'x')).string();
  chmod(large.c_str(), 0600);
  EXPECT_THAT([&] { tls_keys::of_token(large); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("it is no key file")));
}

/// A name of a peer's own is printed on the operator's terminal.
TEST_F(TlsKeys, NameAuthoritiesInOneLine) {
  const certified_key forged = make_certificate("\x1b[2JMailgrad\n", purpose::signs);
  EXPECT_EQ(openssl::common_name(X509_get_subject_name(forged.certificate.get())), "\\x1b[2JMailgrad\\x0a");
}

TEST_F(TlsKeys, SayWhichFileIsNotThere) {
  EXPECT_THAT(
      [&] { tls_keys::of_token("/nowhere/token"); },
      ThrowsMessage<std::system_error>(HasSubstr("cannot read the key file /nowhere/token: No such file")));
}

} // namespace
} // namespace mailgrad::net
