#include <mailgrad/actors/remote/letter_head.hpp>

#include <fmt/format.h>

namespace mailgrad::remote {

namespace {

void write_address(net::frame_writer& w, const actor_address& a) {
  w.u8(static_cast<std::uint8_t>(a.what)).u32(a.number);
}

actor_address read_address(net::frame_reader& r) {
  const std::uint8_t what = r.u8();
  if (what > static_cast<std::uint8_t>(last_duty))
    r.fail(fmt::format("expected a duty from 0 to {}, found {}", static_cast<int>(last_duty), what));
  return {static_cast<duty>(what), r.u32()};
}

} // namespace

void write_head(net::frame_writer& w, const letter_head& head) {
  w.u64(head.order);
  write_address(w, head.to);
  write_address(w, head.from);
  w.u16(head.kind).u8(static_cast<std::uint8_t>(head.layout));
}

letter_head read_head(net::frame_reader& r, bool has_body) {
  letter_head head;
  head.order = r.u64();
  head.to = read_address(r);
  head.from = read_address(r);
  head.kind = r.u16();
  head.layout = static_cast<letter_layout>(r.u8());
  if ((head.layout == letter_layout::fields) == has_body || head.layout > letter_layout::fields_in_body)
    r.fail("expected fields that fit how the letter came");
  return head;
}

} // namespace mailgrad::remote
