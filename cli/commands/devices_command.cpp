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

/// The lanes of a card are as many as its owner likes, so the first two show how they are written.
std::string card_in_words(const cuda::runtime::card& c, std::uint32_t index, const std::string& driver) {
  const device first{device_kind::cuda, index}, second{device_kind::cuda, index, 1};
  if (!c.why_unknown.empty())
    return fmt::format("{:<8} does not answer: {}", to_string(first), c.why_unknown);
  if (c.is_too_old())
    return fmt::format("{:<8} {}, compute capability {}.{}, which is too old: {}.0 is the least",
                       to_string(first), c.name, c.major, c.minor, c.least_major);
  return fmt::format("{:<8} {}, {}, compute capability {}.{}, driver for {}; lanes {}, {}, ...",
                     to_string(first), c.name, byte_count(c.memory_bytes).text(), c.major, c.minor, driver,
                     to_string(first), to_string(second));
}

} // namespace

command make_devices_command(CLI::App& app) {
  CLI::App* parser =
      app.add_subcommand("devices", "List the cores that a run may use, and the cards of this machine");
  return {parser, [] {
            for (const device d : usable_core_devices()) std::cout << to_string(d) << '\n';
            const usable_cores cores = cores_of_process();
            if (cores.count() < cores.online) std::cout << "may be used: " << cores.in_words() << '\n';
            const auto found = cuda::runtime::find_cards();
            for (std::uint32_t i = 0; i < found.cards.size(); ++i)
              std::cout << card_in_words(found.cards[i], i, found.driver) << '\n';
            if (!found.cards.empty())
              std::cout << "kernels generated for chains of operations: " << cuda::tried_kernels_in_words(0)
                        << '\n';
            if (found.cards.empty()) std::cout << "no card: " << found.why_none << '\n';
            return exit_code::done;
          }};
}

} // namespace mailgrad
