#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Batches of a process that is not as it should be.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct forged_tensor {
  std::vector<std::size_t> extents;

  void keep(archive& a) {
    a.group("shape", [&] { a.field("extents", extents); });
    dtype type = dtype::float32;
    a.choice("type", type, dtype::int32);
  }
};

/// What comes of a batch all of whose tensors have this shape.
void read_batch_of(const std::vector<std::size_t>& extents) {
  byte_archive_writer a;
  std::size_t one = 1;
  std::uint64_t none = 0;
  std::vector<forged_tensor> tensors(6, forged_tensor{extents});
  a.version(1);
  a.field("size", one);
  a.field("nonzeros", one);
  a.field("number", none);
  a.field("epoch", none);
  a.field("tensors", tensors);
  const std::string bytes = a.bytes();
  byte_archive_writer written;
  const address_book nobody;
  field_inspector writes(written, nobody);
  std::size_t description = bytes.size();
  writes.field("description", description);
  byte_archive_reader read(written.bytes(), "message");
  field_inspector reads(read, nobody);
  const arriving came = batch_form().begin(reads, {duty::feeder}, {duty::worker, 0}, announced{bytes.size()});
  std::ranges::copy(std::as_bytes(std::span(bytes)), came.place.begin());
  came.finish();
}

TEST(BatchForm, RefusesShapesThatNoTensorHas) {
  EXPECT_THAT([] { read_batch_of(std::vector<std::size_t>(9, 1)); },
              ThrowsMessage<archive_error>(HasSubstr("shape")));
  EXPECT_THAT(
      [] {
        read_batch_of({std::size_t{1} << 40, std::size_t{1} << 40});
      },
      ThrowsMessage<archive_error>(HasSubstr("shape")));
}

} // namespace
} // namespace mailgrad::remote
