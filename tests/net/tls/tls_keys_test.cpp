#include <mailgrad/net/tls/tls_keys.hpp>

#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

namespace mailgrad::net {
namespace {

using namespace ::testing;

mode_t permission_of(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct KeyFolder : Test {
  scratch_folder files;
  std::filesystem::path where = files.path() / "of" / "mine";
  key_folder keys{where};
};

TEST_F(KeyFolder, HoldsKeysThatOnlyTheirOwnerReads) {
  const mode_t before = umask(0);
  keys.make();
  umask(before);
  EXPECT_EQ(permission_of(where), 0700U);
  for (const char* secret : {"ca.key", "server.key", "worker.key", "shard.key", "token"})
    EXPECT_EQ(permission_of(where / secret), 0600U);
  for (const char* known : {"ca.pem", "server.pem", "worker.pem", "shard.pem"})
    EXPECT_EQ(permission_of(where / known), 0644U);
  EXPECT_EQ(text_of(keys.token()).size(), 32U);
}

/// Its owner has had a reason, and a link may lead to a folder of somebody else.
TEST_F(KeyFolder, LeavesAFolderThatIsThereAsItIs) {
  const std::filesystem::path link = files.path() / "link";
  std::filesystem::create_directories(where);
  std::filesystem::permissions(where, std::filesystem::perms(0755));
  std::filesystem::create_directory_symlink(where, link);
  const key_folder behind(link);
  behind.make();
  EXPECT_EQ(permission_of(where), 0755U);
  EXPECT_EQ(permission_of(where / "token"), 0600U);
}

TEST_F(KeyFolder, MakesOthersEachTime) {
  keys.make();
  const key_folder again(files.path() / "again");
  again.make();
  for (const auto& [a, b] :
       {std::pair{keys.token(), again.token()}, std::pair{keys.of_server().key, again.of_server().key},
        std::pair{keys.of_server().authority, again.of_server().authority},
        std::pair{keys.of_server().key, keys.of_worker().key}})
    EXPECT_NE(text_of(a), text_of(b));
}

TEST_F(KeyFolder, IsNotMadeWhereKeysAre) {
  std::filesystem::create_directories(where);
  std::ofstream(where / "worker.key") << "mine";
  EXPECT_THAT([&] { keys.make(); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("expected a folder without keys, found worker.key"), HasSubstr(where.string()))));
  EXPECT_EQ(text_of(where / "worker.key"), "mine");
  EXPECT_FALSE(std::filesystem::exists(where / "ca.pem"));
}

TEST_F(KeyFolder, SaysWhereItCannotBe) {
  const std::filesystem::path file = files.write("file", "x");
  EXPECT_THAT([&] { key_folder(file / "keys").make(); },
              ThrowsMessage<std::system_error>(HasSubstr("cannot write " + (file / "keys").string())));
}

struct TlsKeys : Test {
  void SetUp() override {
    keys.make();
    others.make();
  }
  static void expect_refused(const certificate_files& f, const std::string& file, const std::string& words) {
    EXPECT_THAT([&] { tls_keys::of_certificates(f); },
                ThrowsMessage<std::invalid_argument>(AllOf(StartsWith(file), HasSubstr(words))));
  }
  static void expect_no_token(const std::string& file, const std::string& words) {
    EXPECT_THAT([&] { tls_keys::of_token(file); }, ThrowsMessage<std::invalid_argument>(HasSubstr(words)));
  }
  std::string secret(const std::string& name, const std::string& text) const {
    const std::string file = files.write(name, text).string();
    chmod(file.c_str(), 0600);
    return file;
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
    expect_no_token(keys.token(), keys.token() + ": expected permission 0600, found 0");
    expect_no_token(keys.token(), "run: chmod 600 " + keys.token());
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
  wrong.key = secret("no.key", "no key");
  expect_refused(wrong, wrong.key, "expected a private key in PEM");
  expect_no_token(secret("no.token", "too short"), "expected a token of 32 random bytes, found 9");
  expect_no_token(secret("large", std::string(100'000, 'x')), "it is no key file");
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
