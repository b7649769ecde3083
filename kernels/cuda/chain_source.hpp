#pragma once

#include <mailgrad/kernels/elementwise.hpp>

#include <string>
#include <string_view>

/// The text of kernels for element-wise chains: C++ that calls the functors which the interpreted kernel
/// calls (kernels/functors/), one after the other, with all results in registers.
///
/// The bits are those of the interpreted kernel, if both are compiled without contraction of products with
/// sums: each operation is then rounded by itself, but for the multiply_add() that functors spell.
namespace mailgrad::cuda {

/// What stands before the kernels of a text.
std::string_view chain_preamble() noexcept;

/// The kernel `name` of a chain, a function of (chain_arrays, element_range). It is launched with
/// blocks_of_packs(n, packs_of(chain)) blocks of threads_per_block threads.
std::string chain_kernel_text(const elementwise_chain& chain, std::string_view name);

/// The packs that a thread has: one is enough if the chain has many arrays.
unsigned packs_of(const elementwise_chain& chain) noexcept;

} // namespace mailgrad::cuda
