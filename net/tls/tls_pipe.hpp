#pragma once

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/stream/byte_pipe.hpp>
#include <mailgrad/net/tls/openssl.hpp>

namespace mailgrad::net {

/// Buffers that connections use by turns, so that memory does not grow with those that have nothing in
/// theirs. There are a few of them; while all are lent, other connections do with less.
/// Threads one caller at a time.
class spare_buffers {
public:
  static constexpr std::size_t most_lent = 8;

  /// Whether there is another one.
  bool any() const noexcept { return lent_ < most_lent; }
  std::size_t lent() const noexcept { return lent_; }
  /// An empty one, which may have room already.
  bytes take() {
    ++lent_;
    if (spare_.empty()) return {};
    bytes b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  /// One that was taken comes back.
  void give(bytes b) {
    --lent_;
    b.clear();
    if (b.capacity() > 0 && spare_.size() < most_kept) spare_.push_back(std::move(b));
  }

private:
  static constexpr std::size_t most_kept = 4;

  std::vector<bytes> spare_;
  std::size_t lent_ = 0;
};

/// Those of the connections of one side of a network.
struct tls_buffers {
  spare_buffers ahead; ///< of bytes that were read, all of one size
  spare_buffers out;   ///< of bytes that are to be sent
  bytes small;         ///< for parts that go as one record, within one call
};

/// The longest message of a greeting. OpenSSL makes room for 128 KiB as soon as a stranger says that it sends
/// as much.
constexpr std::size_t most_greeting_message = 16 << 10;

/// Follows what a peer sends before there is a cipher: records of TLS, of which some bring messages of the
/// greeting, each with its length in front (RFC 8446, sections 4 and 5.1).
class clear_records {
public:
  /// More has come. False if a message is longer than most_greeting_message. Nothing is looked at behind the
  /// first record that is encrypted.
  bool follow(byte_view next);

private:
  std::array<std::byte, 5> record_{};                ///< kind, version, length
  std::array<std::byte, 4> message_{};               ///< kind, length
  std::size_t record_bytes_ = 0, message_bytes_ = 0; ///< of these that have come
  std::size_t record_left_ = 0, message_left_ = 0;   ///< that are to come behind them
  bool has_cipher_ = false;
};

/// Where a connection of OpenSSL has its bytes from and gives them to. Records that it writes are gathered,
/// so that one call to the socket sends many of them.
/// Threads one caller at a time.
class socket_bio {
public:
  socket_bio(int socket, std::shared_ptr<tls_buffers> spare) noexcept
      : socket_(socket), spare_(std::move(spare)) {}
  ~socket_bio();
  socket_bio(const socket_bio&) = delete;
  socket_bio& operator=(const socket_bio&) = delete;

  /// For SSL_set_bio(), which owns it. It must not outlive this.
  openssl::bio make_bio() {
    auto b = openssl::made<openssl::bio>(BIO_new(method()));
    BIO_set_data(b.get(), this);
    BIO_set_init(b.get(), 1);
    return b;
  }

  /// From now on reads. Until then nothing has come, for OpenSSL, since who looks what the peer speaks must
  /// find its first bytes in the socket.
  void begin_reading() noexcept { reads_ = true; }
  /// From now on reads more from the socket than is asked for. OpenSSL's own reading ahead would move the
  /// rest of its buffer at each record.
  void read_ahead() noexcept { reads_ahead_ = true; }
  /// Nothing is asked for now: gives a buffer back in which nothing is left.
  void settle();
  /// Whether bytes were read that nobody has asked for yet.
  bool holds_input() const noexcept { return in_begin_ < in_end_; }

  /// More is about to be gathered. Returns how much may be: a record where other connections have all large
  /// buffers, so that memory does not grow with peers that take nothing.
  std::size_t begin_gathering();
  /// Sends what is gathered. False if some of it is left.
  bool flush();
  std::size_t gathered() const noexcept { return out_.size() - sent_; }
  /// Whether the peer sends no more, or the socket failed.
  bool has_ended() const noexcept { return has_ended_; }
  /// What the system said of a socket that failed; "closed by the peer" otherwise.
  std::string end_words() const {
    return error_ != 0 ? std::generic_category().message(error_) : "closed by the peer";
  }

private:
  static constexpr std::size_t ahead_bytes = 256 << 10;
  static constexpr std::size_t most_gathered = 272 << 10; ///< in one go: a piece of a body, in a cache

  static int read(BIO* b, char* to, std::size_t room, std::size_t* count);
  static int write(BIO* b, const char* from, std::size_t size, std::size_t* count);
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static const BIO_METHOD* method();
  int receive(BIO* b, std::byte* to, std::size_t room, std::size_t* count);

  int socket_;
  std::shared_ptr<tls_buffers> spare_;
  bool reads_ = false, reads_ahead_ = false;
  clear_records records_; ///< until there is a cipher
  bytes in_;              ///< of what was read ahead
  std::size_t in_begin_ = 0, in_end_ = 0;
  bytes out_;
  bool is_lent_ = false; ///< `out_` is one of the large buffers
  std::size_t sent_ = 0; ///< of these
  bool has_ended_ = false;
  int error_ = 0;
};

/// Reads the refusal that a server sends without a cipher to a peer that has other keys. Nobody vouches for
/// it: it serves for words, of a connection that has failed anyway.
class plain_refusal final : frame_sink {
public:
  plain_refusal() : decoder_(*this) {}

  /// Takes bytes up to its end.
  /// Errors  protocol_error if they are none.
  void feed(byte_view data) { decoder_.feed(data); }
  const std::optional<refusal>& said() const noexcept { return said_; }

private:
  std::span<std::byte> place_of(const frame_header& h) override {
    if (h.kind == frame_kind::refusal && !said_) return {};
    throw protocol_error("frame: expected one refusal, found a {}", to_string(h.kind));
  }
  void take(const frame_header&, byte_view payload) override { said_ = decode_refusal(payload); }

  frame_decoder decoder_;
  std::optional<refusal> said_;
};

/// Bytes by TLS 1.3. Both sides prove that they have the right keys before a byte of a frame is read.
///
/// A server that does not accept a peer says so in words, by a refusal without a cipher behind its alert, and
/// so it answers a peer that speaks without one, or for which it has no room.
class tls_pipe final : public byte_pipe {
public:
  enum class side : std::uint8_t { server, client };
  /// A key of AES-GCM is good for 2^24.5 records (RFC 8446, section 5.5), and this is a tenth of that.
  static constexpr std::uint64_t usual_bytes_a_key = std::uint64_t{1} << 35;

  /// The socket does not block, and outlives the pipe.
  tls_pipe(int socket, std::shared_ptr<const tls_keys> keys, side s,
           std::uint64_t bytes_a_key = usual_bytes_a_key,
           std::shared_ptr<tls_buffers> spare = std::make_shared<tls_buffers>());

  moved read(std::span<const iovec> to) override;
  moved write(std::span<const iovec> from) override;
  /// What the purpose of its certificate says. Tokens make no difference.
  bool lets_peer_serve() const override {
    X509* theirs = SSL_get0_peer_certificate(ssl_.get());
    return theirs == nullptr || X509_check_purpose(theirs, X509_PURPOSE_SSL_SERVER, 0) == 1;
  }
  /// A server that is full says so without a cipher, since it keeps nothing for one more.
  bool give_up_greeting() override {
    if (side_ != side::server || stage_ != stage::unknown) return false;
    stage_ = stage::refused;
    return true;
  }
  bool call_for_input() override {
    return stage_ == stage::open && !is_dry_ && (socket_.holds_input() || SSL_has_pending(ssl_.get()) == 1);
  }
  bool holds_output() const noexcept override { return socket_.gathered() > 0; }
  /// Bytes that are encrypted and not sent.
  std::size_t gathered() const noexcept { return socket_.gathered(); }

private:
  ///     unknown --the peer's first byte--> greeting --both have the keys--> open
  ///        `---it speaks plain, or  .         |--server: they have not--> refused
  ///            there is no room ----`-------->`--client: it was refused--> listening
  enum class stage : std::uint8_t {
    unknown,   ///< nothing came from the peer
    greeting,  ///< keys are proved
    open,      ///< both have the right keys
    refused,   ///< of a server: whatever it still says is plain
    listening, ///< of a client: hears the server's plain reason
  };

  moved look();
  moved greet(std::span<const iovec> to);
  moved decrypt(std::span<const iovec> to);
  moved listen();
  moved fail();
  moved refuse(std::string found);
  std::size_t encrypt(std::span<const iovec> from);
  void encrypt_part(byte_view part);
  std::string found_words(const std::string& reason) const;

  int handle_;
  std::shared_ptr<const tls_keys> keys_;
  side side_;
  stage stage_ = stage::unknown;
  std::uint64_t bytes_a_key_, bytes_left_; ///< to encrypt by this key
  bool has_read_ = false;                  ///< a byte of a frame
  bool reads_much_ = false;
  bool is_dry_ = false; ///< the last read took all there was: at most part of a record, which the socket ends
  std::optional<moved> broken_; ///< what the peer sent behind valid data
  tls_peer peer_;
  plain_refusal reason_;
  std::string local_reason_;
  bool hears_plainly_ = false; ///< of a client: the server said nothing by a cipher
  std::shared_ptr<tls_buffers> spare_;
  socket_bio socket_;
  openssl::connection ssl_;
};

} // namespace mailgrad::net
