#include <mailgrad/tests/fuzz/targets.hpp>

#include <cstdint>

/// What libFuzzer calls. An exception that a target lets through ends the process, and libFuzzer keeps the
/// input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mailgrad::fuzz::MAILGRAD_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
