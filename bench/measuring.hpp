#pragma once

#include <cstddef>
#include <cstdio>
#include <ctime>

#include <algorithm>
#include <chrono>
#include <vector>

namespace mailgrad::bench {

/// Measures wall time, and the share of processors that this program got. If the share is below the number of
/// busy threads, other programs ran, and the figure is worthless.
class stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  /// Processor time of all threads divided by wall time.
  double processors() const { return (cpu_now() - cpu_begin_) / seconds(); }

private:
  static double cpu_now() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double cpu_begin_ = cpu_now();
};

template <class F>
double seconds_of(F f) {
  const stopwatch watch;
  f();
  return watch.seconds();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Half the distance between the quartiles, divided by the median.
inline double spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t quarter = values.size() / 4;
  return (values[values.size() - 1 - quarter] - values[quarter]) / 2 / median(values);
}

/// Keeps the compiler from removing the computation of `value`.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// "name: 12.3 unit (+-4.5 %)": the form that `compare` reads.
inline void print(const char* name, const std::vector<double>& values, const char* unit) {
  std::printf("%s: %.4g %s (+-%.1f %%)\n", name, median(values), unit, 100 * spread(values));
  std::fflush(stdout);
}

} // namespace mailgrad::bench
