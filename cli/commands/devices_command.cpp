#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/program.hpp>

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>

namespace mailgrad {

namespace {

/// The streams of a GPU are as many as its owner likes, so the first two show how they are written.
std::string format_gpu(const cuda::runtime::gpu& c, std::uint32_t index, const std::string& driver) {
  const device first{device_kind::cuda, index}, second{device_kind::cuda, index, 1};
  if (!c.why_unknown.empty())
    return fmt::format("{:<8} does not answer: {}", to_string(first), c.why_unknown);
  if (c.is_too_old())
    return fmt::format("{:<8} {}, compute capability {}.{}, which is too old: {}.0 is the least",
                       to_string(first), c.name, c.major, c.minor, c.least_major);
  return fmt::format("{:<8} {}, {}, compute capability {}.{}, driver for {}; streams {}, {}, ...",
                     to_string(first), c.name, byte_count(c.memory_bytes).text(), c.major, c.minor, driver,
                     to_string(first), to_string(second));
}

} // namespace

command make_devices_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("devices", "List the cores that a run may use, and the GPUs of this machine");
  return {parser, [] {
            for (const device d : usable_core_devices()) std::cout << to_string(d) << '\n';
            const usable_cores cores = cores_of_process();
            if (cores.count() < cores.online) std::cout << "may be used: " << cores.in_words() << '\n';
            const auto found = cuda::runtime::find_gpus();
            for (std::uint32_t i = 0; i < found.gpus.size(); ++i)
              std::cout << format_gpu(found.gpus[i], i, found.driver) << '\n';
            if (!found.gpus.empty())
              std::cout << "kernels generated for chains of operations: " << cuda::format_tried_kernels(0)
                        << '\n';
            if (found.gpus.empty()) std::cout << "no GPU: " << found.why_none << '\n';
            return exit_code::done;
          }};
}

} // namespace mailgrad
