#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <mailgrad/tests/support/manual_time.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad::remote {
namespace {

constexpr std::size_t model_bytes = std::size_t{64} << 20U;
constexpr std::uint32_t shards = 16;

exchange_terms terms_of_a_large_model() {
  const auto layout = std::make_shared<parameter_layout>(
      std::vector<placed_variable>{{"w", shape{model_bytes / sizeof(float)}, {}, 0, false}}, shards);
  return {
      {}, {}, {}, layout, std::make_shared<testing::manual_time>(), std::make_shared<exchange_clock>(shards)};
}

/// The bytes of memory that the machine gives for these.
std::size_t resident(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  std::vector<unsigned char> there((end - first + page - 1) / page);
  if (mincore(reinterpret_cast<void*>(first), end - first, there.data()) != 0) return 0;
  return page *
         static_cast<std::size_t>(std::ranges::count_if(there, [](unsigned char p) { return p & 1U; }));
}

/// A server has a gradient of the size of the model for each shard and worker. If all of it took memory, the
/// shards would multiply what a worker costs.
TEST(GradientForm, TakesNoMoreMemoryForAGradientThanTheShardsPart) {
  const exchange_terms terms = terms_of_a_large_model();
  constexpr std::uint32_t shard = 3;
  const std::size_t part = dense_range_of(*terms.layout, shard).size() * sizeof(float);
  const address_book nobody;
  byte_archive_writer written;
  field_inspector writes(written, nobody);
  push_gradient x{};
  x.payload.values = make_gradient(*terms.layout, block::for_overwrite);
  ASSERT_EQ(gradient_form(terms).write(caf::make_message(x), {duty::shard, shard}, writes).bytes.size(),
            part);

  byte_archive_reader read(written.bytes(), "gradient");
  field_inspector reads(read, nobody);
  gradient_form at_shard(terms);
  const arriving values = at_shard.begin(reads, {duty::worker, 0}, {duty::shard, shard}, {part});
  std::ranges::fill(values.place, std::byte{1});
  const caf::message told = values.finish();
  const block& dense = told.get_as<push_gradient>(0).payload.values->dense;
  ASSERT_EQ(dense.bytes(), model_bytes);
  const std::size_t taken = resident({dense.data(), dense.bytes()});
  EXPECT_GE(taken, part);
  EXPECT_LE(taken, 2 * part);
}

} // namespace
} // namespace mailgrad::remote
