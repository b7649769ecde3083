// Measures the limits of this machine: multiply-adds, memory, and passing a cache line from core to core.
// Every other figure of this folder is compared with one of these. With any argument only the last, short
// measurement runs.

#include "measuring.hpp"

#include <mailgrad/tensor/block.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 9;

#if defined(__AVX512F__)
constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
constexpr std::size_t vector_bytes = 32;
#else
constexpr std::size_t vector_bytes = 16;
#endif
using vector [[gnu::vector_size(vector_bytes), gnu::may_alias]] = float;

/// GFLOP/s of multiply-adds on registers. Twelve chains are more than enough to hide the latency of two
/// units.
double multiply_adds() {
  constexpr int chains = 12;
  constexpr long rounds = 4'000'000;
  vector x[chains]{};
  const vector a = vector{} + 0.999F;
  const vector b = vector{} + 0.001F;
  const double seconds = seconds_of([&] {
    for (long i = 0; i < rounds; ++i)
#pragma GCC unroll 12
      for (vector& v : x) v = v * a + b;
  });
  keep(x);
  constexpr double per_round = 2.0 * chains * static_cast<double>(vector_bytes / sizeof(float));
  return per_round * static_cast<double>(rounds) / seconds / 1e9;
}

/// The same on two threads at once, which gives twice as much only if two processors are two cores.
double multiply_adds_twice() {
  double other = 0;
  std::thread second([&other] { other = multiply_adds(); });
  const double own = multiply_adds();
  second.join();
  return own + other;
}

// Each pass goes once over n floats of every array; its bytes are those that it reads and writes.

struct arrays {
  explicit arrays(std::size_t bytes)
      : size(bytes / sizeof(float)), memory{block(bytes), block(bytes), block(bytes), block(bytes)} {
    for (block& m : memory) std::ranges::fill(m.as<float>(), 0.5F);
  }
  float* operator[](std::size_t i) { return memory[i].as<float>().data(); }

  std::size_t size;
  std::array<block, 4> memory;
};

/// Adds up eight sums at a time, because a single sum would wait for its own last addition.
void read(arrays& a) {
  const auto* x = reinterpret_cast<const vector*>(a[0]);
  const std::size_t n = a.size * sizeof(float) / vector_bytes;
  constexpr std::size_t chains = 8;
  vector sums[chains]{};
  for (std::size_t i = 0; i + chains <= n; i += chains)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < chains; ++j) sums[j] += x[i + j];
  keep(sums);
}

void copy(arrays& a) {
  const float* from = a[0];
  float* to = a[1];
#pragma omp simd
  for (std::size_t i = 0; i < a.size; ++i) to[i] = from[i];
  keep(to);
}

void sgd(arrays& a) {
  float* w = a[0];
  const float* g = a[1];
#pragma omp simd
  for (std::size_t i = 0; i < a.size; ++i) w[i] -= 1e-6F * g[i];
  keep(w);
}

void momentum(arrays& a) {
  float* w = a[0];
  const float* g = a[1];
  float* v = a[2];
#pragma omp simd
  for (std::size_t i = 0; i < a.size; ++i) {
    v[i] = 0.9F * v[i] + g[i];
    w[i] -= 1e-6F * v[i];
  }
  keep(w);
}

void adam(arrays& a) {
  float* w = a[0];
  const float* g = a[1];
  float* m = a[2];
  float* v = a[3];
#pragma omp simd
  for (std::size_t i = 0; i < a.size; ++i) {
    m[i] = 0.9F * m[i] + 0.1F * g[i];
    v[i] = 0.999F * v[i] + 0.001F * g[i] * g[i];
    w[i] -= 1e-6F * m[i] / (std::sqrt(v[i]) + 1e-8F);
  }
  keep(w);
}

struct pass {
  const char* name;
  void (*run)(arrays&);
  int streams; ///< arrays read plus arrays written
};

void measure_memory(std::size_t bytes, const char* size) {
  arrays a(bytes);
  const std::size_t rounds = std::max<std::size_t>(1, (std::size_t{64} << 20) / bytes);
  for (const pass& p : {pass{"read", read, 1}, pass{"copy", copy, 2}, pass{"sgd update", sgd, 3},
                        pass{"momentum update", momentum, 5}, pass{"adam update", adam, 7}}) {
    p.run(a);
    std::vector<double> rates;
    for (int r = 0; r < repetitions; ++r) {
      const double seconds = seconds_of([&] {
        for (std::size_t i = 0; i < rounds; ++i) p.run(a);
      });
      rates.push_back(static_cast<double>(rounds * bytes) * p.streams / seconds / 1e9);
    }
    print((std::string(p.name) + ", " + size).c_str(), rates, "GB/s");
  }
}

/// Microseconds for a flag to another thread and back, both spinning on it.
double spinning_round_trip() {
  constexpr int rounds = 20'000;
  alignas(64) std::atomic<int> ball{0};
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      while (ball.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      ball.store(2 * i + 2, std::memory_order_release);
    }
  });
  const double seconds = seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      ball.store(2 * i + 1, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
  });
  other.join();
  return seconds / rounds * 1e6;
}

/// The same between threads that sleep until they are woken.
double sleeping_round_trip() {
  constexpr int rounds = 4'000;
  std::mutex mutex;
  std::condition_variable changed;
  int ball = 0;
  const auto play = [&](int mine) {
    for (int i = 0; i < rounds; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ball % 2 == mine; });
      ++ball;
      changed.notify_one();
    }
  };
  std::thread other(play, 1);
  const double seconds = seconds_of([&] { play(0); });
  other.join();
  return seconds / rounds * 1e6;
}

template <class F>
void measure(const char* name, F f, const char* unit) {
  std::vector<double> values;
  for (int r = 0; r < repetitions; ++r) values.push_back(f());
  print(name, values, unit);
}

} // namespace

int main(int argc, char**) {
  if (argc == 1) {
    std::printf("vectors of %zu floats, %u processors\n", vector_bytes / sizeof(float),
                std::thread::hardware_concurrency());
    multiply_adds(); // wakes the core up
    measure("multiply-adds", multiply_adds, "GFLOP/s");
    measure("multiply-adds, 2 threads", multiply_adds_twice, "GFLOP/s");
    measure_memory(std::size_t{2} << 20, "2 MiB arrays");
    measure_memory(std::size_t{256} << 20, "256 MiB arrays");
    measure("hand-over and back, asleep", sleeping_round_trip, "us");
  }
  measure("hand-over and back, spinning", spinning_round_trip, "us");
}
