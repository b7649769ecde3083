#include <mailgrad/kernels/cuda/chain_source.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace mailgrad::cuda {

namespace {

constexpr std::array names_of_functors{"copy",
                                       "negate",
                                       "relu",
                                       "gelu",
                                       "tanh",
                                       "sigmoid",
                                       "exp",
                                       "log",
                                       "square",
                                       "sqrt",
                                       "add",
                                       "subtract",
                                       "multiply",
                                       "divide",
                                       "relu_of_sum",
                                       "relu_gradient",
                                       "gelu_gradient",
                                       "tanh_gradient",
                                       "sigmoid_gradient",
                                       "square_gradient",
                                       "sqrt_gradient"};
static_assert(names_of_functors.size() == static_cast<std::size_t>(elementwise_function::sqrt_gradient) + 1);

std::string_view name_of(elementwise_function f) { return names_of_functors[static_cast<std::size_t>(f)]; }

bool is_full(const elementwise_chain& chain, std::size_t input) {
  return chain.inputs[input] == elementwise_chain::extent::full;
}

bool is_read(const elementwise_chain& chain, std::size_t operand) {
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    if (step.a == operand || (!is_unary(step.function) && step.b == operand)) return true;
  }
  return false;
}

std::string operand_list(const elementwise_chain& chain) {
  std::string names;
  const std::size_t count = std::size_t{chain.input_count} + chain.step_count;
  for (std::size_t i = 0; i < count; ++i) names += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
  return names;
}

std::string loads(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.input_count; ++i)
    if (is_read(chain, i))
      lines += fmt::format("        o.x{0} = {1}(arrays.inputs[{0}]);\n", i,
                           is_full(chain, i) ? "elements.load" : "repeated");
  return lines;
}

std::string steps(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.step_count; ++i) {
    const elementwise_chain::step& step = chain.steps[i];
    const std::string second = is_unary(step.function) ? "" : fmt::format(", o.x{}", step.b);
    lines += fmt::format("          o.x{} = of_each(mailgrad::functors::{}{{}}, o.x{}{});\n",
                         chain.input_count + i, name_of(step.function), step.a, second);
  }
  return lines;
}

std::string stores(const elementwise_chain& chain) {
  std::string lines;
  for (std::size_t i = 0; i < chain.step_count; ++i)
    if (chain.steps[i].output >= 0)
      lines += fmt::format("        elements.store(arrays.outputs[{}], o.x{});\n", chain.steps[i].output,
                           chain.input_count + i);
  return lines;
}

} // namespace

std::string_view chain_preamble() noexcept {
  return "#include <mailgrad/kernels/cuda/chain_elements.hpp>\n"
         "#include <mailgrad/kernels/functors/binary.hpp>\n"
         "#include <mailgrad/kernels/functors/unary.hpp>\n"
         "\n"
         "using namespace mailgrad::cuda;\n";
}

// Each kernel has its operands in a namespace of its own, so that several fit in one text.
std::string chain_kernel_text(const elementwise_chain& chain, std::string_view name) {
  return fmt::format("\nnamespace operands_of_{0} {{\n"
                     "struct operands {{\n"
                     "  float_pack {1};\n"
                     "}};\n"
                     "}} // namespace operands_of_{0}\n"
                     "\n"
                     "extern \"C\" __global__ void {0}(chain_arrays arrays, element_range range) {{\n"
                     "  for_packs<{2}>(\n"
                     "      range,\n"
                     "      [&](auto elements) {{\n"
                     "        operands_of_{0}::operands o{{}};\n"
                     "{3}"
                     "        return o;\n"
                     "      }},\n"
                     "      [&](auto& loaded) {{\n"
                     "#pragma unroll\n"
                     "        for (auto& o : loaded) {{\n"
                     "{4}"
                     "        }}\n"
                     "      }},\n"
                     "      [&](auto elements, const auto& o) {{\n"
                     "{5}"
                     "      }});\n"
                     "}}\n",
                     name, operand_list(chain), packs_of(chain), loads(chain), steps(chain), stores(chain));
}

unsigned packs_of(const elementwise_chain& chain) noexcept {
  std::size_t arrays = 0;
  for (std::size_t i = 0; i < chain.input_count; ++i)
    arrays += is_full(chain, i) && is_read(chain, i) ? 1 : 0;
  for (std::size_t i = 0; i < chain.step_count; ++i) arrays += chain.steps[i].output >= 0 ? 1 : 0;
  return arrays > 3 ? 1 : 2;
}

} // namespace mailgrad::cuda
