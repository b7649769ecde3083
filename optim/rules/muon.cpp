#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/rules/muon.hpp>

namespace mailgrad {

namespace {

bool is_wide(const matrix_dims& d) { return d.rows <= d.columns; }
std::size_t short_side(const matrix_dims& d) { return std::min(d.rows, d.columns); }

/// X X^T of a wide matrix, else X^T X.
gemm_shape square_of(const matrix_dims& d) {
  if (is_wide(d)) return {d.rows, d.rows, d.columns, operand_order::as_is, operand_order::transposed};
  return {d.columns, d.columns, d.rows, operand_order::transposed, operand_order::as_is};
}

/// B X of a wide matrix, else X B.
gemm_shape product_of(const matrix_dims& d) { return {d.rows, d.columns, short_side(d)}; }

/// y = p x + q y
void combine(float p, std::span<const float> x, float q, std::span<float> y) {
#pragma omp simd
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = p * x[i] + q * y[i];
}

/// Muon: momentum whose step on a matrix is made orthogonal, so that no direction of it is left behind.
/// Scalars, vectors, tables whose gradients come as rows, and variables that the user names take AdamW.
///
///     M = mu M + (1 - mu) G
///     U = (1 - mu) G + mu M                       (Nesterov; without it U = M)
///     w = w - rate (lambda w + sqrt(max(1, columns / rows)) newton_schulz(U))
///
/// with mu = momentum, lambda = weight decay. The learning rate of AdamW is `adamw_rate`, under the same
/// schedule.
/// Source  Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024,
///         https://kellerjordan.github.io/posts/muon/, and the author's program of 2025. Differs: weights are
///         [in, units] here and [units, in] there, so rows and columns change places in the factor.
/// Shapes  states "momentum" and "mean_square": float32[shard]; the second is for AdamW, which has its mean
///         in the first.
class muon_rule final : public variable_rule {
public:
  muon_rule(const muon_options& options, std::size_t shard_size, std::span<const shard_variable> variables)
      : options_(options), momentum_(shard_size * sizeof(float)), mean_square_(shard_size * sizeof(float)) {
    std::size_t largest = 0;
    for (const shard_variable& v : variables) {
      places_.push_back({v.offset, as_matrix(v.dims), v.in_rows || takes_adamw(options, v)});
      if (places_.back().by_adamw) continue;
      largest = std::max(largest, v.dims.size());
      orthogonal_.expect(places_.back().dims);
    }
    step_ = block(largest * sizeof(float));
  }

  void update(const variable_step& work) override {
    const place& at = places_[work.variable];
    if (!at.by_adamw) return update_matrix(work, at);
    const double rate = work.factor * options_.adamw_rate;
    const auto states = states_from(at.offset);
    const scaled_gradient gradient{work.gradient.data(), 1};
    const weight_penalty penalty{0, static_cast<float>(rate * work.decay)};
    mailgrad::update(host_stream{}, adam_of(rate, work.step), penalty,
                     {work.weights, work.weights, {&gradient, 1}}, states);
  }
  void update_rows(const rows_step& work) override {
    const double rate = work.factor * options_.adamw_rate;
    const weight_penalty penalty{static_cast<float>(work.l2), static_cast<float>(rate * work.decay)};
    const auto states = states_from(work.first);
    mailgrad::update_rows(host_stream{}, adam_of(rate, work.step), penalty, work.rows, states);
  }
  std::vector<optimizer_state> state() override {
    return {{"momentum", momentum_.as<float>()}, {"mean_square", mean_square_.as<float>()}};
  }

private:
  struct place {
    std::size_t offset;
    matrix_dims dims;
    bool by_adamw;
  };

  adam_update adam_of(double rate, std::uint64_t step) const {
    return adam_step({options_.beta1, options_.beta2, options_.epsilon}, rate, step);
  }
  std::array<float*, 2> states_from(std::size_t first) {
    return {momentum_.as<float>().data() + first, mean_square_.as<float>().data() + first};
  }

  void update_matrix(const variable_step& work, const place& at) {
    const auto mu = static_cast<float>(options_.momentum), rest = static_cast<float>(1 - options_.momentum);
    const float of_gradient = options_.nesterov ? rest : 0;
    const float of_mean = options_.nesterov ? mu : 1;
    const std::size_t count = work.weights.size();
    float* const m = momentum_.as<float>().data() + at.offset;
    float* const u = step_.as<float>().data();
    const float* const g = work.gradient.data();
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      m[i] = mu * m[i] + rest * g[i];
      u[i] = of_gradient * g[i] + of_mean * m[i];
    }
    orthogonal_.orthogonalise({u, count}, at.dims);
    const double shape = static_cast<double>(at.dims.columns) / static_cast<double>(at.dims.rows);
    const auto rate = static_cast<float>(work.rate * std::sqrt(std::max(1.0, shape)));
    const auto kept = static_cast<float>(1 - work.rate * work.decay);
    float* const w = work.weights.data();
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) w[i] = kept * w[i] - rate * u[i];
  }

  muon_options options_;
  std::vector<place> places_; ///< by variable
  block momentum_;
  block mean_square_;
  block step_; ///< U of the largest matrix
  newton_schulz orthogonal_;
};

} // namespace

void newton_schulz::expect(const matrix_dims& dims) {
  const std::size_t n = short_side(dims);
  products_.expect(square_of(dims));
  products_.expect(product_of(dims));
  products_.expect({n, n, n});
  grow(square_, n * n);
  grow(next_square_, n * n);
  grow(product_, dims.rows * dims.columns);
}

void newton_schulz::orthogonalise(std::span<float> x, const matrix_dims& dims) {
  constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  const std::size_t n = short_side(dims);
  const std::span<float> square = square_.as<float>().first(n * n);
  const std::span<float> next = next_square_.as<float>().first(n * n);
  const std::span<float> product = product_.as<float>().first(x.size());
  const double length = std::sqrt(sum_of_squares(host_stream{}, x));
  scale_in_place(host_stream{}, static_cast<float>(1 / (length + 1e-7)), x);
  for (int i = 0; i < steps; ++i) {
    products_.multiply(square_of(dims), x.data(), x.data(), square.data());
    products_.multiply_square(n, square.data(), square.data(), next.data());
    combine(b, square, c, next);
    const float* const left = is_wide(dims) ? next.data() : x.data();
    const float* const right = is_wide(dims) ? x.data() : next.data();
    products_.multiply(product_of(dims), left, right, product.data());
    combine(1, product, a, x);
  }
}

std::vector<std::string> words_for_adamw(const muon_options& options) {
  std::vector<std::string> words;
  for (const std::string_view word : words_between(options.adamw, '+'))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

bool takes_adamw(const muon_options& options, const shard_variable& v) {
  const auto is_in_name = [&](const std::string& word) { return v.name.find(word) != std::string::npos; };
  return v.dims.rank() < 2 || std::ranges::any_of(words_for_adamw(options), is_in_name);
}

std::unique_ptr<variable_rule> make_rule(const muon_options& options, std::size_t shard_size,
                                         std::span<const shard_variable> variables) {
  return std::make_unique<muon_rule>(options, shard_size, variables);
}

} // namespace mailgrad
