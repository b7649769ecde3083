// Measures the kernels of a card, by its own events: those bound by memory beside a copy of the same size,
// products beside the largest product. Prints one line a kernel, columns apart by tabs: name, microseconds
// (median), spread in percent, GB/s, TFLOP/s. scripts/gpu-check makes a table of them.
//
//   card_kernels [CARD]     on this card of the machine, 0 if none is named
//   card_kernels --cards    says which cards there are, or why there is none
//   card_kernels --tiny     on arrays a thousand times smaller, to try the program itself

#include "card_timing.hpp"

#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cross_entropy.hpp>
#include <mailgrad/kernels/dropout.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/map_weights.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/strided_copy.hpp>
#include <mailgrad/kernels/update.hpp>

#include <charconv>
#include <exception>
#include <span>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

/// What sizes are divided by: 1, or more in a trial.
std::size_t divisor = 1;

std::size_t floats_of(std::size_t mebibytes) { return (mebibytes << 20) / sizeof(float) / divisor; }

double float_bytes(std::size_t n, std::size_t arrays) {
  return static_cast<double>(n * arrays * sizeof(float));
}

using kernel_maker = timed_kernel (*)(card_arrays&);

timed_kernel copy_of(card_arrays& a, const char* name, std::size_t n) {
  return {name, float_bytes(n, 2), 0, [from = a.floats(n), to = a.room<float>(n), n](const stream& s) {
            cuda::runtime::copy(std::get<cuda_stream>(s).stream, to, from, n * sizeof(float));
          }};
}
timed_kernel copy_64(card_arrays& a) { return copy_of(a, "copy 64 MiB", floats_of(64)); }
timed_kernel copy_256(card_arrays& a) { return copy_of(a, "copy 256 MiB", floats_of(256)); }

template <std::size_t states>
timed_kernel update_of(card_arrays& a, const char* name, std::size_t n, update_rule rule) {
  std::array<float*, states> state{};
  for (float*& x : state) x = a.room<float>(n);
  return {name, float_bytes(n, 3 + 2 * states), 0,
          [w = a.floats(n), g = a.floats(n), n, rule, state](const stream& s) {
            const scaled_gradient scaled{g, 1e-6F};
            update(s, rule, {}, {{w, n}, {w, n}, {&scaled, 1}}, state);
          }};
}
timed_kernel adam_256(card_arrays& a) {
  return update_of<2>(a, "update adam 256 MiB", floats_of(256),
                      adam_update{1e-3F, .9F, .1F, .999F, .001F, 1, 1e-8F});
}
timed_kernel momentum(card_arrays& a) {
  return update_of<1>(a, "update momentum", floats_of(64), momentum_update{1e-3F, .9F});
}
timed_kernel sgd(card_arrays& a) { return update_of<0>(a, "update sgd", floats_of(64), sgd_update{1e-3F}); }

timed_kernel sgd_of_8(card_arrays& a) {
  constexpr std::size_t count = 8;
  const std::size_t n = floats_of(64);
  std::array<scaled_gradient, count> gradients{};
  for (scaled_gradient& g : gradients) g = {a.floats(n), 1e-6F};
  return {"update sgd, 8 gradients", float_bytes(n, 2 + count), 0,
          [n, w = a.floats(n), gradients](const stream& s) {
            update(s, sgd_update{1e-3F}, {}, {{w, n}, {w, n}, gradients}, {});
          }};
}

timed_kernel chain_of(card_arrays& a, const char* name, std::initializer_list<elementwise_chain::step> steps,
                      std::size_t inputs) {
  const std::size_t n = floats_of(64);
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(inputs);
  for (const auto& step : steps) chain.steps[chain.step_count++] = step;
  std::vector<const void*> from;
  for (std::size_t i = 0; i < inputs; ++i) from.push_back(a.floats(n));
  return {name, float_bytes(n, inputs + 1), 0,
          [=, to = static_cast<void*>(a.room<float>(n))](const stream& s) {
            elementwise(s, chain, from, {&to, 1}, n, nullptr);
          }};
}
timed_kernel relu(card_arrays& a) { return chain_of(a, "relu", {{elementwise_function::relu, 0, 0, 0}}, 1); }
timed_kernel addition(card_arrays& a) {
  return chain_of(a, "add", {{elementwise_function::add, 0, 1, 0}}, 2);
}
timed_kernel chain_of_3(card_arrays& a) {
  return chain_of(a, "chain of 3",
                  {{elementwise_function::multiply, 0, 1, -1},
                   {elementwise_function::add, 3, 2, -1},
                   {elementwise_function::tanh, 4, 4, 0}},
                  3);
}

constexpr std::size_t columns = 512;
std::size_t row_count() { return floats_of(64) / columns; }

timed_kernel bias_relu(card_arrays& a) {
  const std::size_t rows = row_count();
  const auto plan = plan_broadcast({rows, columns}, {columns}, {rows, columns});
  return {"relu(x + bias)", float_bytes(rows * columns, 2), 0,
          [plan, x = a.floats(rows * columns), b = a.floats(columns), y = a.room<float>(rows * columns)](
              const stream& s) { broadcast(s, elementwise_function::relu_of_sum, plan, x, b, y); }};
}
timed_kernel bias_relu_backward(card_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of relu(x + bias)", float_bytes(rows * columns, 3), 0,
          [rows, y = a.floats(rows * columns), dy = a.floats(rows * columns),
           dz = a.room<float>(rows * columns), db = a.room<float>(columns)](const stream& s) {
            bias_relu_gradient(s, y, dy, dz, db, rows, columns);
          }};
}
timed_kernel delay_compensation(card_arrays& a) {
  const std::size_t n = floats_of(64);
  const std::array<const float*, 3> reads{a.floats(n), a.floats(n), a.floats(n)};
  const std::array<float*, 1> writes{a.room<float>(n)};
  return {"cure: delay compensation", float_bytes(n, 4), 0, [=](const stream& s) {
            map_weights(s, delay_compensation_step{1, .04F}, reads, writes, n);
          }};
}
timed_kernel addition_to_sum(card_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"add to a sum", float_bytes(n, 3), 0, [n, x = a.floats(n), sum = a.floats(n)](const stream& s) {
            add_to_sum(s, 1e-6F, {x, n}, {sum, n});
          }};
}
timed_kernel dropping(card_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"dropout", float_bytes(n, 2), 0, [n, x = a.floats(n), y = a.room<float>(n)](const stream& s) {
            dropout(s, {.5F, 7, 0}, x, y, n);
          }};
}
timed_kernel transposing(card_arrays& a) {
  const std::size_t side = divisor == 1 ? 4096 : 64;
  const strided_copy plan({side, side}, {{1, side}, 0}, row_major({side, side}));
  return {"transpose", float_bytes(side * side, 2), 0,
          [plan, x = a.floats(side * side), y = a.room<float>(side * side)](const stream& s) {
            plan.run(s, x, y);
          }};
}
timed_kernel sum_of(card_arrays& a, const char* name, const shape& dims,
                    std::array<bool, shape::max_rank> summed) {
  const sum_plan plan = plan_sum(dims, summed);
  return {name, float_bytes(dims.size(), 1), 0,
          [plan, x = a.floats(dims.size()), y = a.room<float>(plan.result_size)](const stream& s) {
            sum(s, plan, x, 1, y);
          }};
}
timed_kernel sum_all(card_arrays& a) { return sum_of(a, "sum of all", {floats_of(64)}, {true}); }
timed_kernel sum_rows(card_arrays& a) {
  const std::size_t rows = row_count();
  return sum_of(a, "sum over rows", {rows, columns}, {true, false});
}
timed_kernel sum_columns(card_arrays& a) {
  const std::size_t rows = row_count();
  return sum_of(a, "sum over columns", {rows, columns}, {false, true});
}
timed_kernel softmax_of_rows(card_arrays& a) {
  const std::size_t rows = row_count();
  return {"softmax", float_bytes(rows * columns, 2), 0,
          [rows, x = a.floats(rows * columns), y = a.room<float>(rows * columns)](const stream& s) {
            softmax(s, x, y, rows, columns);
          }};
}
timed_kernel softmax_backward(card_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of softmax", float_bytes(rows * columns, 3), 0,
          [rows, y = a.floats(rows * columns), dy = a.floats(rows * columns),
           dx = a.room<float>(rows * columns)](const stream& s) {
            softmax_gradient(s, y, dy, dx, rows, columns);
          }};
}
timed_kernel loss(card_arrays& a) {
  const std::size_t rows = row_count();
  return {"cross-entropy", float_bytes(rows * columns, 2), 0,
          [rows, x = a.floats(rows * columns), labels = a.labels(rows, columns), loss = a.room<float>(1),
           p = a.room<float>(rows * columns)](const stream& s) {
            cross_entropy(s, x, labels, loss, p, rows, columns);
          }};
}
timed_kernel loss_backward(card_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of cross-entropy", float_bytes(rows * columns, 2), 0,
          [rows, p = a.floats(rows * columns), labels = a.labels(rows, columns), d = a.floats(1),
           dx = a.room<float>(rows * columns)](const stream& s) {
            cross_entropy_gradient(s, p, labels, d, dx, rows, columns);
          }};
}
timed_kernel squared_error(card_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"mean squared error", float_bytes(n, 2), 0,
          [n, x = a.floats(n), t = a.floats(n), y = a.room<float>(1)](const stream& s) {
            mean_squared_difference(s, x, t, n, y);
          }};
}

/// Pictures of 56 x 56 with 64 channels, whose values take 64 MiB.
window_grid pictures() {
  return {.batch = divisor == 1 ? 83U : 1U,
          .height = 56,
          .width = 56,
          .channels = 64,
          .rows = 2,
          .columns = 2,
          .stride_rows = 2,
          .stride_columns = 2,
          .out_height = 28,
          .out_width = 28};
}
std::size_t picture_floats() { return pictures().batch * pictures().image_size(); }
std::size_t pooled_floats() { return picture_floats() / 4; }

timed_kernel largest_of_windows(card_arrays& a) {
  return {"max pooling 2x2", float_bytes(picture_floats() + 2 * pooled_floats(), 1), 0,
          [x = a.floats(picture_floats()), y = a.room<float>(pooled_floats()),
           chosen = a.room<std::int32_t>(pooled_floats())](const stream& s) {
            max_pool(s, pictures(), x, y, chosen);
          }};
}
timed_kernel largest_backward(card_arrays& a) {
  return {"gradient of max pooling", float_bytes(picture_floats() + 2 * pooled_floats(), 1), 0,
          [dx = a.room<float>(picture_floats()), dy = a.floats(pooled_floats()),
           chosen = a.labels(pooled_floats(), 4)](const stream& s) {
            max_pool_gradient(s, pictures(), dy, chosen, dx);
          }};
}
timed_kernel mean_of_windows(card_arrays& a) {
  return {"average pooling 2x2", float_bytes(picture_floats() + pooled_floats(), 1), 0,
          [x = a.floats(picture_floats()), y = a.room<float>(pooled_floats())](const stream& s) {
            average_pool(s, pictures(), x, y);
          }};
}

timed_kernel product(card_arrays& a, const char* name, const gemm_shape& g) {
  return {name, float_bytes(g.m * g.k + g.k * g.n + g.m * g.n, 1),
          2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k),
          [g, x = a.floats(g.m * g.k), y = a.floats(g.k * g.n),
           z = a.room<float>(g.m * g.n)](const stream& s) { gemm(s, g, x, y, z, nullptr); }};
}
timed_kernel product_4096(card_arrays& a) { return product(a, "product 4096x4096x4096", {4096, 4096, 4096}); }
timed_kernel product_forward(card_arrays& a) { return product(a, "product 64x512x784", {64, 512, 784}); }
timed_kernel product_weights(card_arrays& a) {
  return product(a, "product 784x512x64, A transposed", {784, 512, 64, operand_order::transposed});
}
timed_kernel product_data(card_arrays& a) {
  return product(a, "product 64x512x256, B transposed",
                 {64, 512, 256, operand_order::as_is, operand_order::transposed});
}

/// The two convolutions of LeNet: 32 filters of 5 x 5 on pictures, and 64 on what the first made.
constexpr convolution_shape first_convolution(std::size_t batch) {
  return {{.batch = batch,
           .height = 28,
           .width = 28,
           .channels = 1,
           .rows = 5,
           .columns = 5,
           .pad_top = 2,
           .pad_left = 2,
           .pad_bottom = 2,
           .pad_right = 2,
           .out_height = 28,
           .out_width = 28},
          32};
}
constexpr convolution_shape second_convolution(std::size_t batch) {
  return {{.batch = batch,
           .height = 14,
           .width = 14,
           .channels = 32,
           .rows = 5,
           .columns = 5,
           .pad_top = 2,
           .pad_left = 2,
           .pad_bottom = 2,
           .pad_right = 2,
           .out_height = 14,
           .out_width = 14},
          64};
}

using planner = std::unique_ptr<convolution_plan> (*)(const convolution_shape&);

timed_kernel convolution(card_arrays& a, const char* name, const convolution_shape& c, planner plan,
                         std::size_t left, std::size_t right, std::size_t result) {
  std::shared_ptr<convolution_plan> planned = plan(c);
  const double per_output = 2.0 * static_cast<double>(c.windows.window_size());
  return {name, float_bytes(left + right + result, 1), per_output * static_cast<double>(c.y_size()),
          [planned, x = a.floats(left), y = a.floats(right), z = a.room<float>(result),
           scratch = a.room<std::byte>(planned->scratch_bytes())](const stream& s) {
            planned->run(s, x, y, z, scratch);
          }};
}

template <convolution_shape (*shape_of)(std::size_t), std::size_t batch>
struct passes {
  static timed_kernel forward(card_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution, c.x_size(), c.w_size(), c.y_size());
  }
  static timed_kernel data(card_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution_data_gradient, c.y_size(), c.w_size(), c.x_size());
  }
  static timed_kernel weights(card_arrays& a, const char* name) {
    constexpr auto c = shape_of(batch);
    return convolution(a, name, c, plan_convolution_weight_gradient, c.x_size(), c.y_size(), c.w_size());
  }
};

const kernel_maker all_kernels[] = {
    copy_64,
    copy_256,
    adam_256,
    momentum,
    sgd,
    sgd_of_8,
    relu,
    addition,
    chain_of_3,
    bias_relu,
    bias_relu_backward,
    delay_compensation,
    addition_to_sum,
    dropping,
    transposing,
    sum_all,
    sum_rows,
    sum_columns,
    softmax_of_rows,
    softmax_backward,
    loss,
    loss_backward,
    squared_error,
    largest_of_windows,
    largest_backward,
    mean_of_windows,
    product_4096,
    product_forward,
    product_weights,
    product_data,
    [](card_arrays& a) { return passes<first_convolution, 64>::forward(a, "conv1 of lenet, batch 64"); },
    [](card_arrays& a) { return passes<first_convolution, 64>::weights(a, "conv1 weights, batch 64"); },
    [](card_arrays& a) { return passes<second_convolution, 64>::forward(a, "conv2 of lenet, batch 64"); },
    [](card_arrays& a) { return passes<second_convolution, 64>::data(a, "conv2 data, batch 64"); },
    [](card_arrays& a) { return passes<second_convolution, 64>::weights(a, "conv2 weights, batch 64"); },
    [](card_arrays& a) { return passes<first_convolution, 1024>::forward(a, "conv1 of lenet, batch 1024"); },
    [](card_arrays& a) { return passes<first_convolution, 1024>::weights(a, "conv1 weights, batch 1024"); },
    [](card_arrays& a) { return passes<second_convolution, 1024>::forward(a, "conv2 of lenet, batch 1024"); },
    [](card_arrays& a) { return passes<second_convolution, 1024>::data(a, "conv2 data, batch 1024"); },
    [](card_arrays& a) { return passes<second_convolution, 1024>::weights(a, "conv2 weights, batch 1024"); },
};

void measure(cuda::card_lane& lane, kernel_maker make) {
  card_arrays arrays(lane);
  timed_kernel k;
  try {
    k = make(arrays);
    if (divisor > 1 && k.operations > 1e7) return arrays.clear();
    const std::vector<double> took = card_timer(lane).microseconds(k);
    const double us = median(took);
    std::printf("%s\t%.2f\t%.1f\t%.1f\t%.2f\n", k.name.c_str(), us, 100 * spread(took), k.bytes / us / 1e3,
                k.operations / us / 1e6);
  } catch (const std::exception& e) {
    std::printf("%s\tfailed: %s\n", k.name.c_str(), e.what());
  }
  std::fflush(stdout);
  arrays.clear();
}

} // namespace

int main(int argc, char** argv) {
  const cuda::runtime::found_cards found = cuda::runtime::find_cards();
  if (found.cards.empty()) {
    std::printf("skipped: %s\n", found.why_none.c_str());
    return 0;
  }
  std::uint32_t card = 0;
  const std::string_view argument = argc > 1 ? argv[1] : "0";
  if (argument == "--cards") {
    for (const auto& c : found.cards)
      std::printf("%s, %zu MiB, capability %u.%u, driver for %s\n", c.name.c_str(), c.memory_bytes >> 20,
                  c.major, c.minor, found.driver.c_str());
    return 0;
  }
  if (argument == "--tiny")
    divisor = 2048;
  else if (std::from_chars(argument.begin(), argument.end(), card).ptr != argument.end()) {
    std::fprintf(stderr, "card_kernels: '%s' is no number of a card\n", argv[1]);
    return 2;
  }
  cuda::card_lane lane(card);
  for (const kernel_maker make : all_kernels) measure(lane, make);
}
