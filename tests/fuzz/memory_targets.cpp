#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <algorithm>
#include <vector>

namespace mailgrad::fuzz {

namespace {

/// A ring whose other side is hostile: it writes into the memory whatever the input says.
class hostile_ring {
public:
  explicit hostile_ring(std::size_t size)
      : data_(size), writer_({&counters_, data_}), reader_({&counters_, data_}) {}

  void play(fuzz_input& input) {
    switch (input.u8() % 8) {
    case 0:
      return write(input.u8());
    case 1:
      return read(input.u8());
    case 2:
      counters_.written = input.u64();
      return;
    case 3:
      counters_.taken = input.u64();
      return;
    case 4:
      counters_.written += input.u8();
      return;
    case 5:
      counters_.calls_for_input = counters_.calls_for_room = input.u8();
      return;
    case 6:
      return call();
    default:
      data_[input.u8() % data_.size()] = std::byte{input.u8()};
    }
  }

private:
  void write(std::size_t size) {
    std::vector<std::byte> from(size);
    const std::vector<iovec> parts{{from.data(), size / 2}, {from.data() + size / 2, size - size / 2}};
    require(writer_.write(parts) <= std::min(size, data_.size()), "more was written than there is room for");
  }
  void read(std::size_t size) {
    std::vector<std::byte> to(size);
    const std::vector<iovec> parts{{to.data(), size / 2}, {to.data() + size / 2, size - size / 2}};
    require(reader_.read(parts) <= std::min(size, data_.size()), "more was read than was asked for");
  }
  void call() {
    require(reader_.call() == reader_.has_input(), "a reader would sleep though there is something");
    require(writer_.call() == writer_.has_room(), "a writer would sleep though there is room");
    (void)reader_.is_called();
    (void)writer_.is_called();
  }

  net::ring_counters counters_;
  net::bytes data_;
  net::ring_writer writer_;
  net::ring_reader reader_;
};

} // namespace

/// The first byte: 0 is an offer, else the size of a ring; behind it stands what happens to the ring.
void rings(std::span<const std::byte> bytes) {
  fuzz_input input(bytes);
  const std::size_t size = input.u8();
  try {
    if (size == 0) {
      const net::bytes offer =
          encode(net::decode_region_offer(bytes.subspan(std::min<std::size_t>(1, bytes.size()))));
      require(as_text(offer) == as_text(bytes.subspan(1)), "an offer that is written again reads otherwise");
      return;
    }
    for (hostile_ring ring(size); !input.is_empty();) ring.play(input);
  } catch (const net::protocol_error& e) {
    require_one_line(e);
  }
}

} // namespace mailgrad::fuzz
