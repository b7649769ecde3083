// Measures how fast weights of 256 MiB are saved and loaded, against the same bytes written and read without
// a format, each with fsync, in the same folder and in turns. The argument is the folder; by default the
// present one.

#include "measuring.hpp"

#include <mailgrad/engine/weights/weights_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

namespace fs = std::filesystem;

constexpr int repetitions = 9;
constexpr std::size_t floats = std::size_t{64} << 20; // 256 MiB
constexpr std::size_t at_a_time = std::size_t{1} << 20;

void require(bool well) {
  if (!well) throw std::runtime_error("the disk cannot be measured");
}

/// As `dd bs=1M conv=fsync` does.
void write_plainly(const fs::path& path, const std::vector<float>& values) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  require(file >= 0);
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  for (std::size_t done = 0; done < values.size() * sizeof(float); done += at_a_time)
    require(write(file, bytes + done, at_a_time) == static_cast<ssize_t>(at_a_time));
  require(fsync(file) == 0);
  close(file);
}

void read_plainly(const fs::path& path, std::vector<float>& values) {
  const int file = open(path.c_str(), O_RDONLY);
  require(file >= 0);
  auto* bytes = reinterpret_cast<char*>(values.data());
  for (std::size_t done = 0; done < values.size() * sizeof(float); done += at_a_time)
    require(read(file, bytes + done, at_a_time) == static_cast<ssize_t>(at_a_time));
  close(file);
}

/// Lets the next reading come from the disk, where the system allows that.
void forget(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

} // namespace

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? argv[1] : ".";
  const fs::path saved = folder / "bench_weights.safetensors", plain = folder / "bench_weights.plain";
  std::vector<float> values(floats, 1.5F);
  for (std::size_t i = 0; i < floats; ++i) values[i] += static_cast<float>(i % 1021);
  const std::vector<named_weights> weights{{"dense1/weights", {floats / 1024, 1024}, values}};
  constexpr double mebibytes = floats * sizeof(float) / 1048576.0;
  std::vector<double> saves, writes, loads, reads, save_ratios, load_ratios;
  for (int r = -1; r < repetitions; ++r) {
    const double w = mebibytes / seconds_of([&] { write_plainly(plain, values); });
    const double s = mebibytes / seconds_of([&] { save_weights(saved, weights, {}); });
    forget(plain);
    forget(saved);
    std::vector<float> again(floats); // the memory of a load is new, too
    const double d = mebibytes / seconds_of([&] { read_plainly(plain, again); });
    const double l = mebibytes / seconds_of([&] { keep(load_weights(saved)); });
    if (r < 0) continue;
    writes.push_back(w);
    saves.push_back(s);
    reads.push_back(d);
    loads.push_back(l);
    save_ratios.push_back(s / w);
    load_ratios.push_back(l / d);
  }
  fs::remove(saved);
  fs::remove(plain);
  print("write with fsync", writes, "MiB/s");
  print("save", saves, "MiB/s");
  print("save of write", save_ratios, "times");
  print("read", reads, "MiB/s");
  print("load", loads, "MiB/s");
  print("load of read", load_ratios, "times");
}
