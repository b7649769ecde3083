#pragma once

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/stream/byte_pipe.hpp>
#include <mailgrad/net/tls/socket_bio.hpp>

namespace mailgrad::net {

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
  bool lets_peer_serve() const override;
  /// A server that is full says so without a cipher, since it keeps nothing for one more.
  bool give_up_greeting() override;
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
