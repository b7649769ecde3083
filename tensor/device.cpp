#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>

namespace mailgrad {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  fail_with(world_errc::no_such_device, "device '{}': {}", text, why);
}

/// How a device of this kind is written, which a refusal of its index ends with. Not everywhere is a stream
/// taken.
const char* form_of(device_kind kind) {
  return kind == device_kind::cpu ? "write cpu:0, or cpu:1 for the second core" : "write cuda:0";
}

constexpr const char* form_of_stream = "write cuda:0/1 for the second stream of cuda:0";

/// Reads all of `digits` as the number of a device or of a stream. `what` is "an index" or "a stream", and
/// `form` how it is written.
std::uint32_t number_in(std::string_view digits, std::string_view text, const char* what, const char* form) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = end == digits.data() + digits.size();
  if (whole && error == std::errc::result_out_of_range)
    refuse(text, fmt::format("'{}' is too large for {}; {}", digits, what, form));
  if (!whole || error != std::errc{}) refuse(text, fmt::format("'{}' is not {}; {}", digits, what, form));
  return number;
}

/// The first devices of a kind.
std::vector<device> numbered(device_kind kind, std::size_t count) {
  std::vector<device> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({kind, i});
  return all;
}

namespace fs = std::filesystem;

std::size_t online_cores() {
  const long found = sysconf(_SC_NPROCESSORS_ONLN);
  return found > 0 ? static_cast<std::size_t>(found) : 1;
}

/// The system refuses a set that is too small for its processors, so a larger one is tried.
std::size_t bound_cores(std::size_t online) {
  struct frees {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  for (std::size_t room = CPU_SETSIZE; room <= 64 * CPU_SETSIZE; room *= 2) {
    const std::unique_ptr<cpu_set_t, frees> set(CPU_ALLOC(room));
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    if (!set) break;
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) == 0)
      return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT_S(bytes, set.get())));
  }
  return online;
}

/// Quota over period, both in microseconds. "max" and -1 are no limit.
std::optional<double> share_in(const fs::path& group, bool is_v2) {
  double quota = 0, period = 0;
  const bool known = is_v2 ? static_cast<bool>(std::ifstream(group / "cpu.max") >> quota >> period)
                           : std::ifstream(group / "cpu.cfs_quota_us") >> quota &&
                                 std::ifstream(group / "cpu.cfs_period_us") >> period;
  return known && quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

/// The least of a group and all above it, up to the folder where they are mounted. A container may not see
/// its group under the path that the host has for it, but then the mounted folder is its group.
std::optional<double> least_share(const fs::path& mounted, const std::string& group, bool is_v2) {
  std::optional<double> least;
  fs::path below = fs::path(group).relative_path().lexically_normal();
  if (!below.empty() && *below.begin() == "..") below.clear(); // outside of what this process can see
  while (true) {
    const auto share = share_in(mounted / below, is_v2);
    if (share && (!least || *share < *least)) least = share;
    if (below.empty() || below == ".") return least;
    below = below.parent_path();
  }
}

/// A line of /proc/self/cgroup: "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1.
struct cgroup_line {
  std::string controllers;
  std::string group;
  bool is_v2() const { return controllers.empty(); }
  bool has_cpu() const { return is_v2() || (',' + controllers + ',').find(",cpu,") != std::string::npos; }
};

std::optional<cgroup_line> read_line(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return cgroup_line{text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

std::optional<double> quota_of_process(const cgroup_files& files) {
  constexpr std::array<std::string_view, 2> of_v2{"", "unified"}; // the second beside version 1
  constexpr std::array<std::string_view, 3> of_v1{"cpu", "cpu,cpuacct", "cpuacct,cpu"};
  std::optional<double> least;
  const auto look = [&](std::string_view folder, const cgroup_line& line) {
    const auto share = least_share(files.mounted / folder, line.group, line.is_v2());
    if (share && (!least || *share < *least)) least = share;
  };
  std::ifstream lines(files.of_process);
  for (std::string text; std::getline(lines, text);) {
    const std::optional<cgroup_line> line = read_line(text);
    if (!line || !line->has_cpu()) continue;
    if (line->is_v2())
      for (const std::string_view folder : of_v2) look(folder, *line);
    else
      for (const std::string_view folder : of_v1) look(folder, *line);
  }
  return least;
}

} // namespace

std::string to_string(device d) {
  const char* const kind = d.kind == device_kind::cpu ? "cpu" : "cuda";
  return d.stream == 0 ? fmt::format("{}:{}", kind, d.index)
                       : fmt::format("{}:{}/{}", kind, d.index, d.stream);
}

device parse_device(std::string_view text) {
  if (text.find(',') != std::string_view::npos) refuse(text, "these are several, and one is taken here");
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  device result;
  if (kind == "cuda")
    result.kind = device_kind::cuda;
  else if (kind != "cpu")
    refuse(text, "expected cpu:N or cuda:N");
  if (colon == std::string_view::npos) return result;
  const std::string_view numbers = text.substr(colon + 1);
  const auto slash = numbers.find('/');
  result.index = number_in(numbers.substr(0, slash), text, "an index", form_of(result.kind));
  if (slash == std::string_view::npos) return result;
  if (result.kind == device_kind::cpu)
    refuse(text, fmt::format("a core has no streams; write {}", to_string(result)));
  result.stream = number_in(numbers.substr(slash + 1), text, "a stream", form_of_stream);
  return result;
}

std::vector<device> available_devices() { return numbered(device_kind::cpu, cores_of_process().online); }
std::vector<device> usable_core_devices() { return numbered(device_kind::cpu, cores_of_process().count()); }
std::vector<device> gpus(std::uint32_t count) { return numbered(device_kind::cuda, count); }

std::vector<device> cpus(std::uint32_t count) {
  const std::vector<device> present = available_devices();
  std::vector<device> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back(present[i % present.size()]);
  return all;
}

std::string format_available() {
  std::string words;
  for (device d : available_devices()) words += (words.empty() ? "" : ", ") + to_string(d);
  return words;
}

void require_available(device d) {
  const auto all = available_devices();
  if (std::ranges::find(all, d) != all.end()) return;
  fail_with(world_errc::no_such_device, "device {} is not available; this machine has {}", to_string(d),
            format_available());
}

std::size_t usable_cores::count() const noexcept {
  const std::size_t most = std::max<std::size_t>(1, std::min(online, bound));
  if (!quota || !(*quota < static_cast<double>(most))) return most;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(*quota)));
}

std::string usable_cores::in_words() const {
  const std::size_t n = count();
  if (n >= online) return fmt::format("{} core{}", n, n == 1 ? "" : "s");
  std::string why;
  if (bound < online) why = fmt::format("this process is bound to {}", bound);
  if (quota && *quota < static_cast<double>(std::min(bound, online)))
    why += fmt::format("{}its control group has the time of {:.3g}", why.empty() ? "" : ", and ", *quota);
  return fmt::format("{} of {} cores: {}", n, online, why);
}

usable_cores cores_of_process(const cgroup_files& files) {
  const std::size_t online = online_cores();
  return {online, bound_cores(online), quota_of_process(files)};
}

} // namespace mailgrad
